// Package containerapp reads and changes the scale of an Azure Container App by
// the REST API of Azure Resource Manager. It needs three requests, so it uses no
// SDK of management.
//
// A change of the scale makes a new revision of the app. In the mode of a single
// revision, its replicas replace those of the one before, which get SIGTERM.
package containerapp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"kennel/internal/azure/identity"
	"kennel/internal/scale/check"
	"kennel/internal/version"
)

const (
	manager = "https://management.azure.com"

	// apiVersion is that of infra/. An older one does not know the identity of a
	// scale rule, and the platform rejects a change of an app without it.
	apiVersion  = "?api-version=2025-01-01"
	permissions = "/providers/Microsoft.Authorization/permissions?api-version=2022-04-01"
	write       = "Microsoft.App/containerApps/write"

	maxAnswer  = 4 << 20
	tryTimeout = 10 * time.Second

	// defaultMaximum is that of the platform for an app that sets none.
	defaultMaximum = 10

	// defaultPause and maxPause bound how long no request is sent after too many.
	defaultPause = time.Minute
	maxPause     = time.Hour
)

// Errors of an [App] besides those of a target.
var (
	ErrNotFound = errors.New("the container app does not exist")
	ErrSignIn   = errors.New("no token for Azure Resource Manager")
)

// App is a container app. It implements [check.Target], and is safe for
// concurrent use.
type App struct {
	id         string
	credential azcore.TokenCredential
	http       *http.Client

	mu        sync.Mutex
	notBefore time.Time // no request is sent; guarded by mu
}

// Options are the optional parts of an app; nil and zero mean the defaults.
type Options struct {
	// ManagedIdentity signs in as the identity assigned to this process: the one
	// with the ClientID, or the system-assigned one. If false, the environment
	// selects the identity.
	ManagedIdentity bool
	ClientID        string

	Credential azcore.TokenCredential // signs in instead
	HTTP       *http.Client           // default: http.DefaultClient
}

func (o *Options) withDefaults() (opt Options, err error) {
	if o != nil {
		opt = *o
	}
	opt.HTTP = cmp.Or(opt.HTTP, http.DefaultClient)
	if opt.Credential == nil {
		opt.Credential, err = identity.New(opt.ManagedIdentity, opt.ClientID)
	}
	return opt, err
}

// resourceID is compiled when it is first used: most apps have no container
// apps, and its init takes 0.15 to 0.3 ms.
var resourceID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/?#%]+/providers/Microsoft\.App/containerApps/([a-z0-9-]+)$`)
})

// Name returns the name in the resource id of a container app, "" if it is none.
func Name(id string) string {
	if match := resourceID().FindStringSubmatch(id); match != nil {
		return match[1]
	}
	return ""
}

// Open returns the app with a resource id. It makes no request.
func Open(id string, options *Options) (*App, error) {
	if Name(id) == "" {
		return nil, errors.New("open container app: the resource id is invalid; use /subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.App/containerApps/NAME")
	}
	opt, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open container app: %w", err)
	}
	return &App{id: id, credential: opt.Credential, http: opt.HTTP}, nil
}

// replicas is the part of the app that matters here.
type replicas struct {
	Minimum *int `json:"minReplicas,omitempty"`
	Maximum *int `json:"maxReplicas,omitempty"`
}

// resource is the path to it.
type resource struct {
	Properties struct {
		Template struct {
			Scale *replicas `json:"scale,omitempty"`
		} `json:"template"`
	} `json:"properties"`
}

// Replicas implements [check.Target].
func (a *App) Replicas(ctx context.Context) (minimum, maximum int, err error) {
	body, err := a.send(ctx, http.MethodGet, apiVersion, nil)
	if err != nil {
		return 0, 0, err
	}
	var r resource
	if err := json.Unmarshal(body, &r); err != nil {
		return 0, 0, errors.New("the answer of Azure Resource Manager is not a container app")
	}
	maximum = defaultMaximum
	if scale := r.Properties.Template.Scale; scale != nil {
		if scale.Minimum != nil {
			minimum = *scale.Minimum
		}
		if scale.Maximum != nil {
			maximum = *scale.Maximum
		}
	}
	return minimum, maximum, nil
}

// SetMinimum implements [check.Target]. After nil the change is accepted,
// and takes effect later.
func (a *App) SetMinimum(ctx context.Context, n int) error {
	var r resource
	r.Properties.Template.Scale = &replicas{Minimum: &n}
	body, err := json.Marshal(r)
	if err == nil {
		_, err = a.send(ctx, http.MethodPatch, apiVersion, body) // a merge patch: the rest stays as it is
	}
	return err
}

// MayChange returns nil if the roles of the identity allow it to change the app,
// and ErrDenied if they do not. It changes nothing: even a change of nothing
// might make a revision, which replaces all replicas.
func (a *App) MayChange(ctx context.Context) error {
	body, err := a.send(ctx, http.MethodGet, permissions, nil)
	if err != nil {
		return err
	}
	var roles struct {
		Value []struct{ Actions, NotActions []string }
	}
	if err := json.Unmarshal(body, &roles); err != nil {
		return errors.New("the answer of Azure Resource Manager has no permissions")
	}
	for _, role := range roles.Value {
		if slices.ContainsFunc(role.Actions, includesWrite) && !slices.ContainsFunc(role.NotActions, includesWrite) {
			return nil
		}
	}
	return fmt.Errorf("%w: none of its %d roles has the action %s", check.ErrDenied, len(roles.Value), write)
}

// includesWrite reports whether an action of a role, in which * stands for any
// text, includes that of a change.
func includesWrite(action string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(action), `\*`, ".*")
	return regexp.MustCompile("(?i)^" + pattern + "$").MatchString(write)
}

// send sends one request to an address below the app, unless there were too many
// lately.
func (a *App) send(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	a.mu.Lock()
	notBefore := a.notBefore
	a.mu.Unlock()
	if time.Now().Before(notBefore) {
		// The time is a constant: an outcome with another error is logged.
		return nil, fmt.Errorf("there were too many requests; none is sent until %s: %w", notBefore.UTC().Format(time.RFC3339), check.ErrBusy)
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	token, err := a.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{manager + "/.default"}})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrSignIn, identity.OneLine(err))
	}
	r, err := http.NewRequestWithContext(ctx, method, manager+a.id+address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token.Token)
	r.Header.Set("User-Agent", version.UserAgent())
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := a.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no answer of Azure Resource Manager: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 != 2 {
		return nil, a.refused(answer, text)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer of Azure Resource Manager: %w", err)
	}
	return text, nil
}

// refused returns the error of an answer that is no success.
func (a *App) refused(answer *http.Response, text []byte) error {
	var body struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal(text, &body) // proxies answer without
	reason := strings.TrimSpace(fmt.Sprint(answer.StatusCode, " ", body.Error.Code, " ", body.Error.Message))
	err := errors.New("the answer of Azure Resource Manager is " + identity.OneLine(errors.New(reason)))
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", check.ErrDenied, err)
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case http.StatusConflict:
		return fmt.Errorf("%w: %w", check.ErrBusy, err)
	case http.StatusTooManyRequests:
		pause := defaultPause
		if seconds, parseErr := strconv.Atoi(answer.Header.Get("Retry-After")); parseErr == nil && seconds > 0 {
			pause = min(time.Duration(seconds)*time.Second, maxPause)
		}
		a.mu.Lock()
		a.notBefore = time.Now().Add(pause)
		a.mu.Unlock()
		return fmt.Errorf("%w: %w", check.ErrBusy, err)
	}
	return err
}
