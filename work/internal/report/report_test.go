package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kennel/work/internal/model"
)

func TestNewReport(t *testing.T) {
	report := New("b")
	for _, r := range []model.Result{
		{ID: "3", Outcome: model.ItemFailed, Error: "late"},
		{ID: "1", Outcome: model.ItemDone},
		{ID: `a"b`, Outcome: model.ItemRejected, Error: "=no, never"},
	} {
		if err := report.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	text, err := report.JSON()
	want := `{"batch":"b","items":3,"done":1,"rejected":[{"id":"a\"b","error":"=no, never"}],"failed":[{"id":"3","error":"late"}]}`
	if diff := cmp.Diff(want, string(text)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	table, err := report.CSV()
	if diff := cmp.Diff("id,outcome,error\n3,failed,late\n\"a\"\"b\",rejected,\"=no, never\"\n", string(table)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if text, err := New("b").JSON(); err != nil || string(text) != `{"batch":"b","items":0,"done":0,"rejected":[]}` {
		t.Errorf("%s, %v", text, err)
	}
}
