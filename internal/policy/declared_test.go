package policy

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kennel/internal/dev/bicep"
	"kennel/internal/dev/project"
	"kennel/internal/program"
)

// TestDeclaredFunctions: functions/ and infra/app.json are what the Kennel app
// declares, byte for byte.
func TestDeclaredFunctions(t *testing.T) {
	d := &program.Declared{Name: "kennel"}
	d.UseAll()
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	root, err := os.Getwd() // TestMain changes to the root
	if err != nil {
		t.Fatal(err)
	}
	differ, err := (&project.Project{Root: root}).Differences(d.Describe())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range differ {
		t.Errorf("%s is %s: run `go run ./cmd/kennel functions`", one.Path, one.Is)
	}
	found, err := filepath.Glob("functions/*/function.json")
	if err != nil || len(found) < 20 {
		t.Errorf("%d functions, %v", len(found), err)
	}
}

// TestSmallProgramStagesLittle: a program without channels, relay, batches and
// bill stages at most 12 functions besides its own, and needs no role for what it
// does not use.
func TestSmallProgramStagesLittle(t *testing.T) {
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", Handled: 1}}, Timers: []*program.Timer{{Name: "digest", Schedule: "0 6 * * *"}}}
	d.Use(program.Numbers)
	d.Use(program.Gates)
	described := d.Describe()
	own := []string{"Queue-emails", "Timer-digest"}
	var builtIn []string
	for _, f := range described.Functions {
		if !slices.Contains(own, f.Name) {
			builtIn = append(builtIn, f.Name)
		}
	}
	if len(builtIn) > 12 || len(described.Functions) != len(builtIn)+len(own) {
		t.Errorf("it stages %q", builtIn)
	}
	if len(described.Roles) != 3 || slices.Contains(described.Storage.Containers, "batch-claims") || slices.Contains(described.Storage.Tables, "Channels") {
		t.Errorf("it needs %q, %+v", described.Roles, described.Storage)
	}
}

// deployProgram returns what is deployed for a program.
func deployProgram(t *testing.T, d *program.Declared, params map[string]any) (*bicep.Deployment, error) {
	t.Helper()
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for name, text := range all {
		if dir, base := path.Split(name); dir == "infra/" {
			files[base] = text
		}
	}
	files["app.json"] = string(d.Describe().Text())
	return bicep.NewSource(files).Deploy("main.bicep", params)
}

// TestSmallProgramDeploysLittle: what a program does not use is not deployed, and
// neither the app nor the workers have rights to it.
func TestSmallProgramDeploysLittle(t *testing.T) {
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", Handled: 1}}}
	for _, params := range []map[string]any{least, most} {
		got, err := deployProgram(t, d, params)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{namespace, vaultType} {
			if names := got.Names(kind); len(names) > 0 {
				t.Errorf("%s %q", kind, names)
			}
		}
		for _, r := range got.Resources {
			text := fmt.Sprint(r.Body)
			for _, word := range []string{"ServiceBus", "servicebus", "KENNEL_SCALE", "work-0", "BatchSweep", serviceBusOwner, secretsUser} {
				if strings.Contains(text, word) {
					t.Errorf("%s %s has %s", r.Type, r.Name, word)
				}
			}
		}
		queues := got.Names("Microsoft.Storage/storageAccounts/queueServices/queues")
		prefix, _ := params["prefix"].(string)
		c := &infraCheck{prefix: prefix}
		if want := c.stored([]string{"emails", "emails-poison", "kennel-doctor"}); !slices.Equal(slices.Sorted(slices.Values(queues)), want) {
			t.Errorf("queues %q, want %q", queues, want)
		}
	}
}

const (
	vaultType       = "Microsoft.KeyVault/vaults"
	serviceBusOwner = "090c5cfd-751d-490a-894a-3ce6f1109419"
	secretsUser     = "4633458b-17de-408a-b874-0445c86b69e6"
)

// TestDeclaredSettingsAreDeployed: a secret is a reference to a vault, whose
// values the app and the workers may read; a plain setting without a default has
// to be given, and another one has its default in the program.
func TestDeclaredSettingsAreDeployed(t *testing.T) {
	d := &program.Declared{Name: "shop", Settings: []*program.Setting{
		{Name: "SHOP_TOKEN", Secret: true}, {Name: "SHOP_URL"}, {Name: "SHOP_LIMIT", Default: "7"}, {Name: "SHOP_NOTE", Optional: true},
	}}
	if _, err := deployProgram(t, d, least); err == nil || !strings.Contains(err.Error(), "SHOP_URL") {
		t.Errorf("without a required setting: %v", err)
	}
	params := maps.Clone(most)
	params["settings"] = map[string]any{"SHOP_URL": "https://example.com", "SHOP_NOTE": "a"}
	got, err := deployProgram(t, d, params)
	if err != nil {
		t.Fatal(err)
	}
	if vaults := got.Of(vaultType); len(vaults) != 1 || len(vaults[0].Name) > 24 || vaults[0].At("properties.enableRbacAuthorization") != true {
		t.Fatalf("vaults %q", got.Names(vaultType))
	}
	vault := got.Of(vaultType)[0]
	secret := "https://" + vault.Name + ".vault.azure.net/secrets/shop-token"
	var users int
	for _, r := range got.Of(assignment) {
		if role, _ := r.At("properties.roleDefinitionId").(string); strings.HasSuffix(role, secretsUser) {
			users++
		}
	}
	if users != 2 {
		t.Errorf("%d identities read secrets, want the app and the workers", users)
	}
	for _, r := range got.Of(siteConfig) {
		if r.Name != "appsettings" {
			continue
		}
		settings := r.At("properties").(map[string]any)
		if settings["SHOP_TOKEN"] != "@Microsoft.KeyVault(SecretUri="+secret+")" || settings["SHOP_URL"] != "https://example.com" || settings["SHOP_LIMIT"] != nil || settings["SHOP_NOTE"] != "a" {
			t.Errorf("settings of the app: %v", settings)
		}
	}
	body := fmt.Sprint(got.Of(worker)[0].At("properties.configuration.secrets"), got.Of(worker)[0].At("properties.template.containers.0.env"))
	if !strings.Contains(body, "keyVaultUrl:"+secret) || !strings.Contains(body, "name:SHOP_TOKEN secretRef:shop-token") || !strings.Contains(body, "name:SHOP_URL value:https://example.com") {
		t.Errorf("settings of the workers: %s", body)
	}
}
