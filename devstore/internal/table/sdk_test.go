package table

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// The client of the SDK works with the service.
func TestSDK(t *testing.T) {
	a := newAccount(t)
	service, err := aztables.NewServiceClientWithNoCredential("http://127.0.0.1:10002"+accountPath,
		&aztables.ClientOptions{ClientOptions: policy.ClientOptions{Transport: transport{a}, Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	client := service.NewClient("blogs")
	if _, err := client.CreateTable(ctx, nil); err != nil {
		t.Fatal(err)
	}
	_, err = client.CreateTable(ctx, nil)
	if e := asError[*azcore.ResponseError](t, err); e.ErrorCode != string(aztables.TableAlreadyExists) {
		t.Errorf("%v", err)
	}
	entity := aztables.EDMEntity{
		Entity: aztables.Entity{PartitionKey: "p", RowKey: "r"},
		Properties: map[string]any{
			"Bool": true, "Int32": int32(-7), "Int64": aztables.EDMInt64(1 << 40), "Double": 5.0, "String": "ꀕ \" \\ \n",
			"Guid": aztables.EDMGUID("4185404a-5818-48c3-b9be-f217df0dba6f"), "Binary": aztables.EDMBinary("bytes"), "ꀕ": "name",
		},
	}
	data, err := json.Marshal(entity)
	if err != nil {
		t.Fatal(err)
	}
	added, err := client.AddEntity(ctx, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.GetEntity(ctx, "p", "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	var read aztables.EDMEntity
	if err := json.Unmarshal(got.Value, &read); err != nil {
		t.Fatal(err)
	}
	for name, want := range entity.Properties {
		before, _ := json.Marshal(want)
		after, _ := json.Marshal(read.Properties[name])
		if string(before) != string(after) {
			t.Errorf("%s is %s, want %s", name, after, before)
		}
	}
	if read.ETag != string(added.ETag) || got.ETag != added.ETag || read.ETag == "" {
		t.Errorf("versions %q, %q and %q", read.ETag, got.ETag, added.ETag)
	}

	batch := []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: []byte(`{"PartitionKey":"p","RowKey":"s"}`)},
		{ActionType: aztables.TransactionTypeUpdateMerge, Entity: []byte(`{"PartitionKey":"p","RowKey":"r","New":1}`), IfMatch: &added.ETag},
		{ActionType: aztables.TransactionTypeInsertReplace, Entity: []byte(`{"PartitionKey":"p","RowKey":"t"}`)},
		{ActionType: aztables.TransactionTypeInsertMerge, Entity: []byte(`{"PartitionKey":"p","RowKey":"u"}`)},
	}
	if _, err := client.SubmitTransaction(ctx, batch, nil); err != nil {
		t.Fatal(err)
	}
	if _, err = client.SubmitTransaction(ctx, batch, nil); err == nil {
		t.Error("the transaction succeeded twice")
	}
	if e := asError[*azcore.ResponseError](t, err); e.StatusCode != 202 {
		t.Errorf("%v", err)
	}
	top, rows := int32(1), 0
	pager := client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: &top})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if rows += len(page.Entities); len(page.Entities) != 1 {
			t.Errorf("a page has %d entities", len(page.Entities))
		}
	}
	if rows != 4 {
		t.Errorf("found %d rows", rows)
	}
	if _, err := client.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &added.ETag}); asError[*azcore.ResponseError](t, err).StatusCode != 412 {
		t.Errorf("%v", err)
	}
	if _, err := client.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{{ID: new("one")}}}); err != nil {
		t.Error(err)
	}
	if acl, err := client.GetAccessPolicy(ctx, nil); err != nil || len(acl.SignedIdentifiers) != 1 {
		t.Errorf("%v, %v", acl.SignedIdentifiers, err)
	}
}
