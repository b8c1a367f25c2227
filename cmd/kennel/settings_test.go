package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/config"
)

func TestSettings(t *testing.T) {
	tests := []struct {
		name    string
		file    string // local.settings.json; "" for none
		env     map[string]string
		want    map[string]string
		wantErr string
	}{
		{
			name: "no file",
			env:  map[string]string{"A": "1"},
			want: map[string]string{"A": "1", "FUNCTIONS_WORKER_RUNTIME": "custom", "AzureWebJobsStorage": "UseDevelopmentStorage=true"},
		},
		{
			name: "the environment wins",
			file: `{"IsEncrypted":false,"Values":{"A":"file","B":"file","N":7,"T":true,"Z":null}}`,
			env:  map[string]string{"A": "env"},
			want: map[string]string{"A": "env", "B": "file", "N": "7", "T": "true", "FUNCTIONS_WORKER_RUNTIME": "custom", "AzureWebJobsStorage": "UseDevelopmentStorage=true"},
		},
		{
			name: "the key to call the app with is not the app's",
			env:  map[string]string{"KENNEL_KEY": "k", "FUNCTIONS_WORKER_RUNTIME": "Custom"},
			want: map[string]string{"FUNCTIONS_WORKER_RUNTIME": "Custom", "AzureWebJobsStorage": "UseDevelopmentStorage=true"},
		},
		{
			name: "storage by identity",
			file: `{"IsEncrypted":false,"Values":{"AzureWebJobsStorage__accountName":"account"}}`,
			want: map[string]string{"FUNCTIONS_WORKER_RUNTIME": "custom", "AzureWebJobsStorage__accountName": "account"},
		},
		{
			name:    "counts as encrypted",
			file:    `{"Values":{"A":"1"}}`,
			wantErr: `write "IsEncrypted": false`,
		},
		{
			name:    "an object",
			file:    `{"IsEncrypted":false,"Values":{"A":{"B":"1"}}}`,
			wantErr: "A is an object or a list",
		},
		{
			name:    "not JSON",
			file:    `IsEncrypted=false`,
			wantErr: "read local.settings.json",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{}
			if test.file != "" {
				files["local.settings.json"] = test.file
			}
			got, err := project{root: writeTree(t, files)}.settings(test.env)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("got %v, want an error with %q", err, test.wantErr)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestMentions(t *testing.T) {
	tests := []struct {
		name, value string
		want        bool
	}{
		{"AzureWebJobsStorage", "UseDevelopmentStorage=true", true},
		{"AzureWebJobsStorage", "", false},
		{"AzureWebJobsStorage__accountName", "account", true},
		{"AzureWebJobsStorage__accountName", "", false},
		{"AZUREWEBJOBSSTORAGE:blobServiceUri", "https://account.blob.core.windows.net", true},
		{"AzureWebJobsStorageX", "account", false},
		{"OtherAzureWebJobsStorage", "account", false},
	}
	for _, test := range tests {
		if got := mentions(map[string]string{test.name: test.value}, storageSetting); got != test.want {
			t.Errorf("%s=%q: got %v, want %v", test.name, test.value, got, test.want)
		}
	}
	if mentions(map[string]string{standInBus: "Endpoint=sb://x"}, busSetting) {
		t.Error("what stands in is taken for what it stands in for")
	}
}

func TestIsDevelopment(t *testing.T) {
	tests := []struct {
		storage config.Storage
		want    bool
	}{
		{config.Storage{ConnectionString: "UseDevelopmentStorage=true"}, true},
		{config.Storage{ConnectionString: "UseDevelopmentStorage=true;"}, true},
		{config.Storage{ConnectionString: "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite"}, false},
		{config.Storage{ConnectionString: "DefaultEndpointsProtocol=https;AccountName=account;AccountKey=c2VjcmV0"}, false},
		{config.Storage{BlobURL: "https://account.blob.core.windows.net"}, false},
	}
	for _, test := range tests {
		if got := isDevelopment(test.storage); got != test.want {
			t.Errorf("%v: got %v, want %v", test.storage, got, test.want)
		}
	}
}
