package azuritetest

import (
	"regexp"
	"strings"
)

var unnumbered = regexp.MustCompile(`\[[0-9]+\]`)

// A row says where and why the two storages do not answer the same. The texts
// are exact, or end with * for whatever follows.
type row struct {
	operation, field, devstore, azurite string

	why   string
	right string // devstore, Azurite, or both, where the documentation leaves it open
}

func (r row) covers(c call, d difference) bool {
	return (matches(r.operation, c.name) || c.with != "" && matches(r.operation, c.with+" "+c.name)) && matches(r.field, unnumbered.ReplaceAllString(d.field, "[n]")) && matches(r.devstore, d.devstore) && matches(r.azurite, d.azurite)
}

// matches compares with alternatives between bars.
func matches(pattern, text string) bool {
	for one := range strings.SplitSeq(pattern, "|") {
		if front, open := strings.CutSuffix(one, "*"); one == text || open && strings.HasPrefix(text, front) {
			return true
		}
	}
	return false
}

const (
	ours   = "devstore"
	theirs = "Azurite"
	both   = "both"

	// The codes of requests that are wrong whatever the storage holds.
	malformed = "400 InvalidHeaderValue|400 InvalidQueryParameterValue|400 OutOfRangeQueryParameterValue|400 MissingRequiredHeader|400 MissingRequiredQueryParameter|" +
		"400 InvalidXmlDocument|400 InvalidMetadata|400 InvalidInput|400 Md5Mismatch|400 InvalidMd5|400 PropertiesNeedValue|400 PropertyNameInvalid|400 OutOfRangeInput"
)

// The calls whose caller has a shared access signature.
const signed = "(account signature*|(signature*"

// Those with one that names a stored access policy.
const byPolicy = "(signature by a policy*|(signature of a part by a policy*|(signature of a base by a policy*"

// differences are ordered: the first row that fits counts.
var differences = []row{
	// What is wrong in itself.
	{"*", result, "400 *|405 *", "400", "Azurite refuses it as well, but names no code.", ours},
	{"*", result, malformed, "404 *|409 *|412 *", "devstore reads all of a request before it looks for what it is about. The order is not documented.", both},
	{"*", result, "404 *|409 *|412 *", "400|400 OutOfRangeInput|400 InvalidXmlDocument|400 InvalidHeaderValue", "The other way around.", both},
	{"*", result, malformed, "400 *", "Of a request with several faults, or one that fits several codes, they name another one.", both},
	{"*", result, "404 *|409 *|412 *", "404 *|409 *|412 *|400 InvalidBlockList|400 UnsatisfiableCondition", "Of several reasons not to do it, they name another one.", both},
	{"*", result, "400 *|404 *|405 *", "500", "Azurite fails.", ours},
	{"*", result, "501 NotImplemented", "404 *", "Azurite looks for the table first.", both},
	{"(odd)*", result, "405 *", "400 *", "The verb is known, but not for this.", ours},

	// Shared access signatures.
	{signed, result, "403 AuthorizationSourceIPMismatch", "*", "Azurite does not check the address of the caller.", ours},
	{signed, result, "403 AuthenticationFailed", "403 AuthorizationFailure", "The code for a signature that is wrong, or not valid now.", ours},
	{byPolicy, result, "403 AuthenticationFailed", "2*|304 *|403 *|404 *|409 *|412 *", "What a stored access policy says, a signature by it must not say, too.", ours},
	{"(signature*", result, "403 AuthorizationFailure", "403 AuthorizationPermissionMismatch", "A signature for one container, queue or table is for no such operation, whatever it permits.", ours},
	{"(signature of a part*", "*", "403 AuthorizationFailure|(none)|0|1|2|3|4|5|6", "*", "Azurite does not look at the first and the last keys.", ours},
	{"(signature of a base*", result, "2*|304 *|403 *|404 *|412 *|416 *", "403 AuthorizationFailure", "Whether the signature for a blob is one for its snapshots is not documented.", both},
	{"Put Blob*|Copy Blob|Put Block List", result, "403 UnauthorizedBlobOverwrite", "*", "A signature for new blobs.", ours},
	{"(odd) GET /Tables('wRows0')?", result, "403 AuthorizationFailure", "200", "Azurite returns the entities of the table.", ours},
	{"Delete Table", result, "403 AuthorizationFailure", "204|404 *", "Azurite deletes a table for one with a signature for its rows.", ours},
	{"Entity Group Transaction*", result, "*", "403 AuthorizationFailure", "Azurite refuses a signature for one table for all transactions.", ours},
	{"Get Blob*|Get Block List|List Blobs|Get Container Properties|Get Container ACL", result, "403 *", "200|206|304 *|404 *|412 *|416 *", "Azurite lets everybody read a public container, also a caller with a bad signature.", ours},
	{signed, result, "403 *", "400|400 *|500", "Azurite reads the request before it checks the caller.", ours},
	{signed, result, "400 *|405 *", "403 *", "Both refuse it. devstore does not check a signature for what is no operation.", both},
	{signed, result, "403 AuthorizationProtocolMismatch", "403 AuthorizationFailure", "Of several reasons to refuse a caller, they name another one.", both},
	{"Entity Group Transaction*", result, "403 AuthorizationPermissionMismatch", "202", "Azurite does not look at the permissions for a transaction, nor at those for its operations.", ours},
	{"(account signature: permission*", "part*", "403 AuthorizationPermissionMismatch*", "*", "", ours},
	{"(account signature*", result, "403 AuthorizationResourceTypeMismatch", "2*|304 *|404 *", "The type of these resources is object; Azurite wants container.", ours},
	{"Delete Message|Update Message|Clear Messages|Query Entities*", result, "2*|404 *", "403 AuthorizationResourceTypeMismatch", "The other side of that.", ours},
	{"Insert Or*", result, "403 AuthorizationPermissionMismatch", "204|404 *", "They need both permissions, to add and to update.", ours},
	{"Copy Blob", result, "401 CannotVerifyCopySource", "202|4*", "The source is read without a signature, because that of the request is for the destination. Azurite reads it in any case.", ours},

	// The parameter timeout.
	{"(timeout )*", result, "*", "400", "An empty parameter is like none.", both},
	{"(timeout*", result, "400 InvalidQueryParameterValue|400 OutOfRangeQueryParameterValue", "2*|404 *|409 *|412 *", "It is a whole number from 0 on. Azurite takes fractions, and has operations that do not read it.", ours},

	// Headers of all answers.
	{"*", "Cache-Control", "no-cache", "(none)", "Answers that must not be kept say so.", ours},
	{"*", "Content-Type", "application/json;odata=*;streaming=true;charset=utf-8|*", "application/json;odata=*", "Azure names the character set.", ours},
	{"Get Container Properties|Get Queue Metadata|Get Blob Metadata", "Content-Length", "0", "*", "An answer to HEAD has no body.", ours},

	// Blobs.
	{"Put Blob|Put Block List|Put Block|Append Block", "X-Ms-Content-Crc64|Content-Md5", "*", "*", "The checksum that the caller sent is answered, and else CRC64.", ours},
	{"Put Blob*|Put Block*|Copy Blob", result, "412 LeaseNotPresentWithBlobOperation", "201|202", "A lease id is sent, and the blob has no lease.", ours},
	{"Put Block", result, "400 InvalidHeaderValue", "201", "A block has at least one byte.", ours},
	{"Delete Blob", result, "404 BlobNotFound", "202", "A blob without a committed block does not exist yet.", ours},
	{"Delete Blob|Set Blob*|Append*|Snapshot Blob|Lease Blob*", result, "412 ConditionNotMet", "2*", "If-None-Match: * is not met by a blob that exists.", ours},
	{"Get Blob", result, "416 InvalidRange", "206", "An empty blob has no first byte.", ours},
	{"Get Blob", result, "200|400 InvalidHeaderValue", "416 InvalidRange|0|206", "HTTP has a server ignore a header Range that it cannot read; Azurite breaks for one of them.", both},
	{"Get Blob", "X-Ms-Blob-Content-Md5|Content-Md5", "*", "*", "The MD5 of the blob belongs to the answer for a range, and is cleared with the other properties.", ours},
	{"Get Blob*|List Blobs", "X-Ms-Blob-Sealed|*/Sealed", "(none)", "false", "The header is for blobs that were sealed.", ours},
	{"List Blobs", result, "400 InvalidQueryParameterValue", "200", "Snapshots cannot be listed with a delimiter.", ours},
	{"Get Block List", "Last-Modified|Etag", "(none)", "(there)", "They are those of a committed blob.", ours},
	{"Get Block List", "BlockList/*", "(none)", "", "Azurite writes an empty element for the list that was not asked for.", ours},
	{"Append Blob Seal", result, "*", "500", "Azurite fails.", ours},
	{"Snapshot Blob", "Etag", "(new)", "(known)", "A snapshot with metadata of its own has an ETag of its own.", ours},
	{"Snapshot Blob", "X-Ms-Request-Server-Encrypted", "true", "(none)", "", ours},
	{"Set Container Metadata", "X-Ms-Version", "(there)", "(none)", "", ours},
	{"(odd)*", "X-Ms-Sku-Name", "Standard_LRS", "Standard_RAGRS", "The kind of an account is invented in both.", both},
	{"List Blobs|List Containers|List Queues", "EnumerationResults/Marker|EnumerationResults/Prefix|EnumerationResults/Delimiter|EnumerationResults/MaxResults", "*", "*", "The parameters that were given are repeated, those that were not are left out.", ours},
	{"List Blobs|List Containers|List Queues", "EnumerationResults/Blobs/Blob[n]/Metadata/*|EnumerationResults/Containers/Container[n]/Metadata/*|EnumerationResults/Queues/Queue[n]/Metadata/*", "*", "*",
		"Names of metadata are in lower case: Go's server does not keep the case of a header. Azure keeps it, Azurite keeps what it received.", theirs},
	{"List Blobs", "EnumerationResults/Blobs/Blob[n]/Properties/*|EnumerationResults/Blobs/Blob[n]/Metadata|EnumerationResults/Blobs/Blob[n]/OrMetadata", "*", "(none)",
		"Azure writes empty elements, too.", ours},
	{"List Blobs", "EnumerationResults/Blobs/Blob[n]/Properties/AccessTierChangeTime|EnumerationResults/Blobs/Blob[n]/Properties/Lease*|EnumerationResults/Blobs/Blob[n]/Properties/Sealed", "(none)", "*",
		"The tier of a blob that was never set has not changed; snapshots have no lease.", ours},
	{"List Blobs", "EnumerationResults/Blobs/Blob[n]/Properties/Etag", "(new)", "(known)", "A snapshot with metadata of its own has an ETag of its own.", ours},
	{"List Blobs", "EnumerationResults/Blobs/Blob[n]/Properties/Content-MD5", "*", "*", "Set Blob Properties clears it with the others.", ours},
	{"List Blobs", "EnumerationResults/Blobs/Blob[n]/Properties/Copy*|EnumerationResults/Blobs/Blob[n]/Properties/IncrementalCopy", "(none)", "*", "They are for include=copy.", ours},
	{"Get Block List", "BlockList/UncommittedBlocks*", "*", "*", "A write of the whole blob discards its uncommitted blocks.", ours},
	{"Put Block", result, "201", "400 InvalidBlobOrBlock", "Ids of blocks that were discarded may have another length.", ours},
	{"List Blobs", "EnumerationResults/Blobs/Blob[n]/Snapshot|EnumerationResults/Blobs/Blob[n]/Properties/Content-Language", "*", "*", "Snapshots come before their blob.", ours},
	{"Get Blob*", result, "200|412 ConditionNotMet", "304 ConditionNotMet|200", "A snapshot with metadata of its own has an ETag of its own.", ours},
	{"Get Blob*", result, "200", "412 LeaseNotPresentWithBlobOperation", "A snapshot has no lease.", ours},
	{"Get Blob*", "X-Ms-Access-Tier-Inferred", "(none)", "false", "", both},
	{"Copy Blob", result, "412 ConditionNotMet", "202", "Blocks that are not committed have a time, which a condition is compared with.", ours},
	{"Get Blob*", "X-Ms-Copy*", "(none)", "*", "A write after the copy ends what is known of it.", ours},
	{"Get Blob*", "X-Ms-Copy-Progress", "0/0", "(none)", "", ours},
	{"Copy Blob", result, "409 InvalidBlobType", "202", "A blob is not replaced by one of another type.", ours},
	{"Snapshot Blob", result, "412 ConditionNotMet", "304 ConditionNotMet", "A write is not answered with 304.", ours},
	{"Lease*", "X-Ms-Lease-Time", "60|59", "59|58", "Azurite rounds down what is left.", both},
	{"List Containers", "EnumerationResults/Containers/Container[n]/Properties/DefaultEncryptionScope|EnumerationResults/Containers/Container[n]/Properties/DenyEncryptionScopeOverride", "*", "(none)", "", ours},
	{"List Blobs|List Containers|List Queues|Get Messages|Put Message|Peek Messages|Update Message|Query Entities*|Query Tables", result, "2*", "400", "An empty parameter is like none.", both},
	{"Get Container ACL|Get Queue ACL|Get Table ACL", "SignedIdentifiers/SignedIdentifier[n]/AccessPolicy/Start|SignedIdentifiers/SignedIdentifier[n]/AccessPolicy/Expiry", "*", "*", "Azure returns times with seven digits.", ours},
	{"Get Blob*", "X-Ms-Lease*", "(none)", "*", "A snapshot has no lease.", ours},
	{"Get Blob*", "Etag", "(new)", "(known)", "A snapshot with metadata of its own has an ETag of its own.", ours},
	{"Get Blob Metadata", "*", "(none)", "*", "Azurite answers GET as Get Blob.", ours},
	{"Put Blob*|Put Block List", result, "412 ConditionNotMet", "201", "Blocks that are not committed have a time, which a condition is compared with.", ours},
	{"Put Blob*", result, "201", "409 BlobAlreadyExists", "A blob without a committed block does not exist yet.", ours},
	{"Copy Blob", result, "202", "409 BlobAlreadyExists", "A blob without a committed block does not exist yet.", ours},
	{"Put Block List", result, "400 InvalidBlockList", "201", "A write of the whole blob, and its deletion, discard its uncommitted blocks.", ours},
	{"Lease Blob*", result, "404 BlobNotFound", "201", "A blob without a committed block does not exist yet.", ours},
	{"Lease*", result, "404 *", "2*|400 *", "Azurite does not look at the action first.", ours},
	{"Set Blob Tier", result, "409 InvalidBlobType", "400 AccessTierNotSupportedForBlobType", "Append blobs have no tiers.", both},
	{"Set Blob Tier", result, "200", "412 LeaseIdMissing", "Whether a lease protects the tier is not documented.", both},
	{"Set * ACL|Set Container ACL|Set Queue ACL|Set Table ACL|Put Block List", result, "400 InvalidXmlDocument", "2*", "Azurite takes any document.", ours},
	{"Create Container|List Containers|Lease*|Put Blob*|Put Block|Copy Blob|Append Block|Get Blob*", result, "400 *", "2*", "Azurite does not check the header or the parameter.", ours},
	{"(odd) GET /w-box0?restype=container&comp=odd", result, "400 *", "200", "", ours},

	// Queues.
	{"Put Message|Update Message|Get Messages|Peek Messages|List Queues", result, "400 InvalidQueryParameterValue", "2*", "Azurite takes fractions, and a message may be hidden for longer than it lives.", ours},
	{"Update Message|Delete Message", result, "404 MessageNotFound", "400 PopReceiptMismatch", "A receipt that another one has replaced. Azure's answer to Delete Message is 404.", ours},
	{"Set Queue Metadata|Create Queue|Set Container Metadata|Set Blob Metadata", result, "400 InvalidMetadata", "2*", "Names of metadata are identifiers.", ours},
	{"Get Messages|Peek Messages", "order", "*", "*", "A queue has no order. Here, a message that was shown again by Update Message comes after those that were visible before.", both},
	{"Update Message", result, "400 InvalidXmlDocument", "204", "Azurite takes any document.", ours},
	{"Delete Message|Update Message", result, "404 MessageNotFound", "204", "Receipts of Azurite fit several messages.", ours},
	{"Put Message|Update Message", result, "400 *", "413 RequestBodyTooLarge", "Of several faults, they name another one.", both},
	{"Put Message|Update Message", result, "413 RequestBodyTooLarge", "400", "The other way around.", both},
	{"Put Message|Get Messages|Peek Messages", "QueueMessagesList/QueueMessage[n]/PopReceipt", "(new)", "(known)", "Azurite makes receipts that repeat, and all messages of an answer have the same.", ours},
	{"Update Message", result, "400 MissingRequiredQueryParameter", "4*", "visibilitytimeout is needed.", ours},

	// Tables.
	{"Query Entities*|Query Tables", result, "400 InvalidInput", "200", "$top is a number from 1 to 1000.", ours},
	{"Insert Entity|Create Table|(odd) *Tables*", "Location|Dataserviceid", "(there)", "(none)", "", ours},
	{"Insert Entity|Create Table", "Preference-Applied", "(none)", "return-content", "The caller did not send Prefer.", ours},
	{"*", "/b|/value[n]/b", "json.Number 2147483648.0", "json.Number 2147483648", "A number that is too large for Edm.Int32 is an Edm.Double.", ours},
	{"Query Entities*|Get Entity", "/a|/b|/c|/none|/value[n]/a|/value[n]/b|/value[n]/none", "<nil> <nil>", "(none)", "A property that was selected and that the entity does not have is null.", ours},
	{"Query Entities (across types)", "/value*|X-Ms-Continuation*", "*", "*", "A value of another type does not fit a comparison. Azurite compares as JavaScript does.", ours},
	{"Query Entities*", result, "501 NotImplemented", "400*", "A function in a filter.", ours},
	{"Query Entities*", "X-Ms-Continuation-Nextrowkey|X-Ms-Continuation-Nextpartitionkey", "(there)", "(none)", "Azurite leaves out an empty key of a row, although it is one.", ours},
	{"Get Entity", "*", "*", "(none)", "$select=* selects everything.", ours},
	{"(odd) GET /Tables('wRows0')?", "/*", "*", "*", "Azurite returns the entities of the table.", ours},
	{"Insert*|Merge Entity|Replace Entity", result, "400 InvalidInput|400 PropertyNameInvalid", "2*", "Azurite does not check values and names.", ours},
	{"Entity Group Transaction*", result, "202", "500", "Azurite fails for an operation that it cannot read, or that has no body.", ours},
	{"Entity Group Transaction*", result, "400 InvalidInput", "202|500", "Azurite looks for operations in the text of the body, and does not read its parts.", ours},
	{"Entity Group Transaction (two partitions)", "part*", "*", "*", "A transaction is about one partition.", ours},
	{"Entity Group Transaction (one query)", "part[n]/result", "404 *", "404 *", "Whether the error of a query names its number is not documented.", both},
	{"Entity Group Transaction*", "part[n]/result", "400 *|403 *|405 *", "404 *|409 *|412 *|400 *", "devstore reads all operations before it looks for what they are about. The order is not documented.", both},
	{"Entity Group Transaction (kind)", "part[n]/result", "405 *", "2*", "Azurite does not look at the address of an insertion.", ours},
	{"Entity Group Transaction*", "part[n]/result", "400 InvalidInput*|400 PropertyNameInvalid*", "2*", "Azurite does not check values and names.", ours},
}
