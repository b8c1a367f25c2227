package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/config"
)

func TestSettings(t *testing.T) {
	const own = "FUNCTIONS_WORKER_RUNTIME"
	for _, tt := range []struct {
		name             string
		local, env, want map[string]string
	}{
		{
			name: "no file",
			env:  map[string]string{"A": "1"},
			want: map[string]string{"A": "1", own: "custom", bodyLimitSetting: bodyLimit, storageSetting: developmentStorage},
		},
		{
			name:  "the environment overrides the file",
			local: map[string]string{"A": "file", "B": "file", bodyLimitSetting: "1"},
			env:   map[string]string{"A": "env", own: "Custom"},
			want:  map[string]string{"A": "env", "B": "file", own: "Custom", bodyLimitSetting: "1", storageSetting: developmentStorage},
		},
		{
			name:  "storage by identity, which overrides the file",
			local: map[string]string{"AzureWebJobsStorage": developmentStorage},
			env:   map[string]string{"AzureWebJobsStorage__accountName": "account"},
			want:  map[string]string{own: "custom", bodyLimitSetting: bodyLimit, "AzureWebJobsStorage__accountName": "account"},
		},
		{
			name:  "storage by identity",
			local: map[string]string{"AzureWebJobsStorage__accountName": "account"},
			want:  map[string]string{own: "custom", bodyLimitSetting: bodyLimit, "AzureWebJobsStorage__accountName": "account"},
		},
	} {
		if diff := cmp.Diff(tt.want, settings(tt.local, tt.env)); diff != "" {
			t.Errorf("%s: settings (-want +got):\n%s", tt.name, diff)
		}
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
	for _, tt := range tests {
		if got := mentions(map[string]string{tt.name: tt.value}, storageSetting); got != tt.want {
			t.Errorf("%s=%q: got %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
	if mentions(map[string]string{secondaryBusSetting: "Endpoint=sb://x"}, busSetting) {
		t.Error("the secondary bus is treated as the primary")
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
	for _, tt := range tests {
		if got := isDevelopment(tt.storage); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.storage, got, tt.want)
		}
	}
}
