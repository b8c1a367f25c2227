// Package policy holds the house: which package may import which, the words
// and the links of documents, the names that code, infrastructure and functions
// share, what images, workflows and lock files may contain, and the known bugs
// that tests must find. It consists of tests.
package policy
