package blob

import (
	"net/http"

	"kennel/devstore/internal/rest"
)

// parseAccess reads the public access of a container.
func parseAccess(r *rest.Request) (string, error) {
	const name = "x-ms-blob-public-access"
	switch access := r.Header(name); access {
	case "", "blob", "container":
		return access, nil
	default:
		return "", rest.InvalidHeader(name, access)
	}
}

func (c *call) createContainer() (*rest.Answer, error) {
	meta, err := parseMetadata(c.r)
	if err != nil {
		return nil, err
	}
	access, err := parseAccess(c.r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Service.container(c.r.Account, c.name) != nil {
		return nil, rest.Fail(409, "ContainerAlreadyExists", "The specified container already exists.")
	}
	return c.putContainer(201, &container{Meta: meta, Access: access})
}

// putContainer stores the state of the container with a new time.
func (c *call) putContainer(status int, state *container) (*rest.Answer, error) {
	state.Stamp = c.next(c.r)
	err := c.commit(&change{Op: opContainer, Account: c.r.Account, Container: c.name, Stamp: state.Stamp, State: state})
	if err != nil {
		return nil, err
	}
	return rest.Reply(status, "ETag", state.etag(), "Last-Modified", state.modified()), nil
}

// state returns what may be changed of the container.
func (k *container) state() *container {
	return &container{Stamp: k.Stamp, Meta: k.Meta, Access: k.Access, Policies: k.Policies, Lease: k.Lease}
}

// toChangeContainer returns the container that the call may change under its
// conditions. Only those on its time are supported.
func (c *call) toChangeContainer() (*container, error) {
	when, err := parseConditions(c.r, "")
	if err != nil {
		return nil, err
	}
	k, err := c.container()
	if err != nil {
		return nil, err
	}
	if when.match != nil || when.noneMatch != nil {
		return nil, rest.Fail(400, "ConditionHeadersNotSupported", "Condition headers are not supported.")
	}
	if err := when.write(k.etag(), timeOf(k.Stamp)); err != nil {
		return nil, err
	}
	return k, nil
}

func (c *call) checkContainerLease(k *container) error {
	return k.Lease.checkRead(c.r.Header("x-ms-lease-id"), ofContainer, c.now())
}

func (c *call) deleteContainer() (*rest.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.toChangeContainer()
	if err != nil {
		return nil, err
	}
	if err := k.Lease.checkWrite(c.r.Header("x-ms-lease-id"), ofContainer, c.now()); err != nil {
		return nil, err
	}
	err = c.commit(&change{Op: opDeleteContainer, Account: c.r.Account, Container: c.name, Stamp: c.next(c.r)})
	return rest.Reply(202), err
}

func (c *call) containerProperties() (*rest.Answer, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, err := c.container()
	if err != nil {
		return nil, err
	}
	if err := c.checkContainerLease(k); err != nil {
		return nil, err
	}
	state, status, duration := k.Lease.describe(c.now())
	a := rest.Reply(200, "ETag", k.etag(), "Last-Modified", k.modified(),
		"x-ms-lease-state", state, "x-ms-lease-status", status, "x-ms-lease-duration", duration,
		"x-ms-blob-public-access", k.Access,
		"x-ms-has-immutability-policy", "false", "x-ms-has-legal-hold", "false",
		"x-ms-immutable-storage-with-versioning-enabled", "false",
		"x-ms-default-encryption-scope", "$account-encryption-key", "x-ms-deny-encryption-scope-override", "false")
	setMetadata(a.Header, k.Meta)
	return a, nil
}

func (c *call) setContainerMetadata() (*rest.Answer, error) {
	meta, err := parseMetadata(c.r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.toChangeContainer()
	if err != nil {
		return nil, err
	}
	if err := c.checkContainerLease(k); err != nil {
		return nil, err
	}
	state := k.state()
	state.Meta = meta
	return c.putContainer(200, state)
}

func (c *call) containerACL() (*rest.Answer, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, err := c.container()
	if err != nil {
		return nil, err
	}
	if err := c.checkContainerLease(k); err != nil {
		return nil, err
	}
	a := rest.Reply(200, "ETag", k.etag(), "Last-Modified", k.modified(), "x-ms-blob-public-access", k.Access)
	if c.r.HTTP.Method == http.MethodHead {
		return a, nil
	}
	return a.With(xmlType, writePolicies(k.Policies)), nil
}

func (c *call) setContainerACL() (*rest.Answer, error) {
	access, err := parseAccess(c.r)
	if err != nil {
		return nil, err
	}
	policies, err := parsePolicies(c.r.Body)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.toChangeContainer()
	if err != nil {
		return nil, err
	}
	if err := c.checkContainerLease(k); err != nil {
		return nil, err
	}
	state := k.state()
	state.Access, state.Policies = access, policies
	return c.putContainer(200, state)
}

// restoreContainer is for containers that were deleted softly. There are none.
func (c *call) restoreContainer() (*rest.Answer, error) {
	for _, name := range []string{"x-ms-deleted-container-name", "x-ms-deleted-container-version"} {
		if c.r.Header(name) == "" {
			return nil, rest.MissingHeader(name)
		}
	}
	return nil, notImplemented("Restore Container")
}

// errFlat is the answer to an expiry: only blobs of accounts with a hierarchical
// namespace have one.
var errFlat = rest.Fail(400, "HierarchicalNamespaceNotEnabled", "Hierarchical namespace is not enabled for this account.")

func (c *call) setExpiry() (*rest.Answer, error) { return nil, errFlat }
