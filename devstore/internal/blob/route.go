package blob

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kennel/devstore/internal/rest"
)

// A rule is an operation of the service and how it is asked for.
type rule struct {
	method     string
	comp       string
	name       string
	permission string // as of [rest.Operation]
	run        func(*call) (*rest.Answer, error)

	max      int64
	public   string // "blob" or "container": with which public access everybody may call it
	account  bool   // a signature for the account is needed, not one for the container
	snapshot bool   // it may be for a snapshot
}

const (
	get    = http.MethodGet
	head   = http.MethodHead
	put    = http.MethodPut
	post   = http.MethodPost
	remove = http.MethodDelete

	mib         = 1 << 20
	maxBlock    = 4000 * mib
	maxAppended = 100 * mib

	anyPermission = "rwdlacuptfxyie"
)

// The operations on the account. Those of restype=service and restype=account
// have it before their comp.
var accountRules = []rule{
	{method: get, comp: "list", name: "List Containers", permission: "l", run: (*call).listContainers},
	{method: post, comp: "batch", name: "Blob Batch", permission: anyPermission, run: (*call).batch, max: 4 * mib},
	{method: get, comp: "account/properties", name: "Get Account Information", permission: anyPermission, run: (*call).accountInfo},
	{method: head, comp: "account/properties", name: "Get Account Information", permission: anyPermission, run: (*call).accountInfo},
	{method: post, comp: "service/userdelegationkey", name: "Get User Delegation Key", run: (*call).delegationKey, max: mib},
	{method: get, comp: "blobs", name: "Find Blobs by Tags", permission: "f"},
}

// The operations on a container.
var containerRules = []rule{
	{method: put, name: "Create Container", permission: "cw", run: (*call).createContainer, account: true},
	{method: get, name: "Get Container Properties", permission: "r", run: (*call).containerProperties, account: true, public: "container"},
	{method: head, name: "Get Container Properties", permission: "r", run: (*call).containerProperties, account: true, public: "container"},
	{method: remove, name: "Delete Container", permission: "d", run: (*call).deleteContainer, account: true},
	{method: get, comp: "metadata", name: "Get Container Metadata", permission: "r", run: (*call).containerProperties, account: true, public: "container"},
	{method: head, comp: "metadata", name: "Get Container Metadata", permission: "r", run: (*call).containerProperties, account: true, public: "container"},
	{method: put, comp: "metadata", name: "Set Container Metadata", permission: "w", run: (*call).setContainerMetadata, account: true},
	{method: get, comp: "acl", name: "Get Container ACL", run: (*call).containerACL, account: true},
	{method: head, comp: "acl", name: "Get Container ACL", run: (*call).containerACL, account: true},
	{method: put, comp: "acl", name: "Set Container ACL", run: (*call).setContainerACL, max: mib, account: true},
	{method: put, comp: "lease", name: "Lease Container", permission: "w", run: (*call).leaseContainer, account: true},
	{method: get, comp: "list", name: "List Blobs", permission: "l", run: (*call).listBlobs, public: "container"},
	{method: post, comp: "batch", name: "Blob Batch", permission: anyPermission, run: (*call).batch, max: 4 * mib},
	{method: get, comp: "account/properties", name: "Get Account Information", permission: anyPermission, run: (*call).accountInfo},
	{method: head, comp: "account/properties", name: "Get Account Information", permission: anyPermission, run: (*call).accountInfo},
	{method: get, comp: "blobs", name: "Find Blobs by Tags in Container", permission: "f"},
	{method: put, comp: "undelete", name: "Restore Container", permission: "w", run: (*call).restoreContainer},
	{method: put, comp: "rename", name: "Rename Container", permission: "w"},
}

// The operations on a blob. Those that make one are in [makingRule].
var blobRules = []rule{
	{method: get, name: "Get Blob", permission: "r", run: (*call).getBlob, public: "blob", snapshot: true},
	{method: head, name: "Get Blob Properties", permission: "r", run: (*call).blobProperties, public: "blob", snapshot: true},
	{method: remove, name: "Delete Blob", permission: "d", run: (*call).deleteBlob, snapshot: true},
	{method: get, comp: "metadata", name: "Get Blob Metadata", permission: "r", run: (*call).blobMetadata, public: "blob", snapshot: true},
	{method: head, comp: "metadata", name: "Get Blob Metadata", permission: "r", run: (*call).blobMetadata, public: "blob", snapshot: true},
	{method: put, comp: "metadata", name: "Set Blob Metadata", permission: "w", run: (*call).setBlobMetadata},
	{method: put, comp: "properties", name: "Set Blob Properties", permission: "w", run: (*call).setBlobProperties},
	{method: put, comp: "blocklist", name: "Put Block List", permission: "w", run: (*call).putBlockList, max: 16 * mib},
	{method: get, comp: "blocklist", name: "Get Block List", permission: "r", run: (*call).getBlockList, public: "blob", snapshot: true},
	{method: put, comp: "seal", name: "Append Blob Seal", permission: "aw", run: (*call).seal},
	{method: put, comp: "lease", name: "Lease Blob", permission: "w", run: (*call).leaseBlob},
	{method: put, comp: "snapshot", name: "Snapshot Blob", permission: "cw", run: (*call).snapshotBlob},
	{method: put, comp: "copy", name: "Abort Copy Blob", permission: "w", run: (*call).abortCopy},
	{method: put, comp: "tier", name: "Set Blob Tier", permission: "w", run: (*call).setTier, snapshot: true},
	{method: get, comp: "account/properties", name: "Get Account Information", permission: anyPermission, run: (*call).accountInfo},
	{method: head, comp: "account/properties", name: "Get Account Information", permission: anyPermission, run: (*call).accountInfo},
	{method: put, comp: "undelete", name: "Undelete Blob", permission: "w"},
	{method: get, comp: "tags", name: "Get Blob Tags", permission: "t", snapshot: true},
	{method: put, comp: "tags", name: "Set Blob Tags", permission: "t", snapshot: true},
	{method: put, comp: "expiry", name: "Set Blob Expiry", permission: "w", run: (*call).setExpiry},
	{method: put, comp: "immutabilitypolicies", name: "Set Blob Immutability Policy", permission: "i", snapshot: true},
	{method: remove, comp: "immutabilitypolicies", name: "Delete Blob Immutability Policy", permission: "i", snapshot: true},
	{method: put, comp: "legalhold", name: "Set Blob Legal Hold", permission: "i", snapshot: true},
	{method: put, comp: "page", name: "Put Page", permission: "w"},
	{method: get, comp: "pagelist", name: "Get Page Ranges", permission: "r", snapshot: true},
	{method: put, comp: "incrementalcopy", name: "Incremental Copy Blob", permission: "w"},
	{method: post, comp: "query", name: "Query Blob Contents", permission: "r", snapshot: true},
}

// makingRule returns the operation of a request that makes a blob or a part of
// one, which headers decide.
func makingRule(r *rest.Request, comp string) (rule, error) {
	copied := r.HTTP.Header.Get("x-ms-copy-source") != ""
	kind := r.Header("x-ms-blob-type")
	made := rule{method: put, permission: "cw"}
	switch {
	case comp == "block" && copied:
		made.name, made.run, made.permission = "Put Block From URL", (*call).putBlockFromURL, "w"
	case comp == "block":
		made.name, made.run, made.permission, made.max = "Put Block", (*call).putBlock, "w", maxBlock
	case comp == "appendblock" && copied:
		made.name, made.run, made.permission = "Append Block From URL", (*call).appendFromURL, "aw"
	case comp == "appendblock":
		made.name, made.run, made.permission, made.max = "Append Block", (*call).appendBlock, "aw", maxAppended
	case copied && kind != "":
		made.name, made.run = "Put Blob From URL", (*call).putFromURL
	case copied && strings.EqualFold(r.Header("x-ms-requires-sync"), "true"):
		made.name, made.run = "Copy Blob From URL", (*call).copyBlob
	case copied:
		made.name, made.run = "Copy Blob", (*call).copyBlob
	case kind == blockBlob:
		made.name, made.run, made.max = "Put Blob", (*call).putBlob, 5000*mib
	case kind == appendBlob:
		made.name, made.run = "Put Blob", (*call).putAppendBlob
	case kind == "PageBlob":
		made.name = "Put Blob (page blob)"
	case kind == "":
		return made, rest.MissingHeader("x-ms-blob-type")
	default:
		return made, rest.InvalidHeader("x-ms-blob-type", kind)
	}
	return made, nil
}

// Route implements [rest.Service].
func (s *Service) Route(r *rest.Request) (rest.Operation, error) {
	if operation, found := s.properties.Operation(r); found {
		return operation, nil
	}
	c := &call{Service: s, r: r}
	found, level, err := c.route()
	if err != nil {
		return rest.Operation{}, err
	}
	c.operation = found.name
	operation := rest.Operation{Name: found.name, Container: c.name, Level: level, Permission: found.permission + more(r, found.name), ForAccount: found.account, MaxBody: found.max}
	if found.public != "" {
		operation.Public = s.isPublic(r.Account, c.name, found.public)
	}
	query := r.Query
	if found.run == nil || level == 'o' && query.Has("versionid") || strings.EqualFold(query.Get("deletetype"), "permanent") {
		return operation, nil
	}
	operation.Run = func(r *rest.Request) (*rest.Answer, error) {
		if err := checkSupported(r, found.name); err != nil {
			return nil, err
		}
		c.r = r
		return found.run(c)
	}
	return operation, nil
}

// more returns further letters of a signature that are enough for some requests
// of an operation.
func more(r *rest.Request, operation string) string {
	switch operation {
	case "Lease Container", "Lease Blob":
		if strings.EqualFold(r.Header("x-ms-lease-action"), "break") {
			return "d"
		}
	case "Put Block", "Put Block From URL", "Put Block List":
		if r.Query.Has("skoid") { // a signature with a user delegation key, in new versions of the service
			return "c"
		}
	}
	return ""
}

// isPublic reports whether a container lets everybody make such calls.
func (s *Service) isPublic(account, name, access string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.container(account, name)
	return k != nil && (k.Access == "container" || k.Access == access)
}

// route reads the address and finds the operation.
func (c *call) route() (found rule, level byte, err error) {
	comp, kind := strings.ToLower(c.r.Query.Get("comp")), strings.ToLower(c.r.Query.Get("restype"))
	if kind == "account" || kind == "service" {
		comp = kind + "/" + comp
	}
	container, blob, inside := strings.Cut(c.r.Path, "/")
	switch {
	case c.r.Path == "" && kind == "container" && comp == "undelete": // names it by a header
		return found, 0, rest.MissingHeader("x-ms-deleted-container-name")
	case c.r.Path == "" && kind == "container":
		return found, 0, rest.InvalidQuery("restype", kind, "The address names no container.")
	case c.r.Path == "":
		found, err = find(accountRules, c.r.HTTP.Method, comp)
		return found, 's', err
	}
	if !inside && kind != "container" && !(kind == "account" && comp != "") {
		container, blob, inside = "$root", container, true
	}
	if c.name, err = url.PathUnescape(container); err != nil {
		return found, 0, errPath
	}
	if err := checkContainerName(c.name); err != nil {
		return found, 0, err
	}
	if !inside || blob == "" {
		found, err = find(containerRules, c.r.HTTP.Method, comp)
		return found, 'c', err
	}
	if c.blob, err = url.PathUnescape(blob); err != nil {
		return found, 0, errPath
	}
	found, err = c.routeBlob(comp)
	return found, 'o', err
}

func (c *call) routeBlob(comp string) (found rule, err error) {
	if err := checkBlobName(c.blob); err != nil {
		return found, err
	}
	if c.r.HTTP.Method == put && slices.Contains([]string{"", "block", "appendblock"}, comp) {
		found, err = makingRule(c.r, comp)
	} else {
		found, err = find(blobRules, c.r.HTTP.Method, comp)
	}
	if err != nil {
		return found, err
	}
	text := c.r.Query.Get("snapshot")
	if c.snapshot, err = parseSnapshot(text); err != nil {
		return found, err
	}
	if c.snapshot != 0 && !found.snapshot {
		return found, rest.InvalidQuery("snapshot", text, found.name+" is not for snapshots.")
	}
	return found, nil
}

// find returns the rule of a method and the parameter comp.
func find(rules []rule, method, comp string) (rule, error) {
	known := false
	for _, one := range rules {
		if one.comp == comp {
			if known = true; one.method == method {
				return one, nil
			}
		}
	}
	if !known {
		_, plain, found := strings.Cut(comp, "/")
		if !found {
			plain = comp
		}
		return rule{}, rest.InvalidQuery("comp", plain, "Unknown operation.")
	}
	return rule{}, rest.Fail(405, "UnsupportedHttpVerb", "The resource doesn't support specified Http Verb.")
}
