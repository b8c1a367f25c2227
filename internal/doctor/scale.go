package doctor

import (
	"context"
	"errors"
	"fmt"

	"kennel/internal/azure/containerapp"
	"kennel/internal/config"
	scalecheck "kennel/internal/scale/check"
)

// The built-in roles that the identity of the app needs for the container app of
// KENNEL_SCALE_TARGET: to compare it with the advice, and to change it.
const (
	scaleReader  = "Reader"
	scaleChanger = "Container Apps Contributor"
)

// scaleChecks returns the checks of the target of scaling.
func scaleChecks(cfg config.Config, target *containerapp.App, m mender) []Check {
	name := containerapp.Name(cfg.ScaleTarget)
	role := scaleReader
	if cfg.ScaleApply {
		role = scaleChanger
	}
	lane := []Check{{Name: "scaling read", fix: m.scaling(role), Do: func(ctx context.Context) (string, error) {
		minimum, maximum, err := target.Replicas(ctx)
		return fmt.Sprintf("container app %s has %d to %d replicas", name, minimum, maximum), err
	}}}
	if !cfg.ScaleApply {
		return lane
	}
	return append(lane, Check{Name: "scaling change", fix: m.scaling(role), Do: func(ctx context.Context) (string, error) {
		return "container app " + name + " may be changed", target.MayChange(ctx)
	}})
}

// scaling returns the command for an error of the target of scaling, for which
// the identity of the app needs this role.
func (m mender) scaling(role string) func(error) string {
	return func(err error) string {
		s, id := m.cfg.Storage, m.cfg.ScaleTarget
		switch {
		case errors.Is(err, scalecheck.ErrDenied):
			return m.grant(s.ManagedIdentity, s.ClientID, role, id)
		case errors.Is(err, containerapp.ErrNotFound):
			return m.set("KENNEL_SCALE_TARGET", fmt.Sprintf("$(az containerapp show --name NAME --resource-group %s --query id --output tsv)", m.group()))
		case errors.Is(err, containerapp.ErrSignIn):
			return m.signIn(s.ManagedIdentity, s.ClientID)
		}
		return fmt.Sprintf("az containerapp show --ids %s --query properties.provisioningState", id)
	}
}
