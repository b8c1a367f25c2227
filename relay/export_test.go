package relay

// For tests in package relay_test, which has the namespaces in memory.
var SizeOf = sizeOf
