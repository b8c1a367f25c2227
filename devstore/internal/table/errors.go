package table

import "kennel/devstore/internal/rest"

// The errors that several operations share. Nothing changes them.
var (
	errInput         = rest.Fail(400, "InvalidInput", "One of the request inputs is not valid.")
	errQuery         = rest.Fail(400, "InvalidInput", "Bad Request - Error in query syntax.")
	errUnauthorized  = rest.Fail(403, "AuthorizationFailure", "This request is not authorized to perform this operation.")
	errPermission    = rest.Fail(403, "AuthorizationPermissionMismatch", "This request is not authorized to perform this operation using this permission.")
	errNotFound      = rest.Fail(404, "ResourceNotFound", "The specified resource does not exist.")
	errTableNotFound = rest.Fail(404, "TableNotFound", "The table specified does not exist.")

	// errFeature is the error of what OData has and Azure does not, such as
	// functions and arithmetic in filters.
	errFeature = rest.Fail(501, "NotImplemented", "The requested operation is not implemented on the specified resource.")
)
