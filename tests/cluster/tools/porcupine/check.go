// Command linearizable checks histories that clients of a key-value store recorded (src/chaos/history.rs):
//
//	linearizable FILE...
//
// Each line of a history is one operation as JSON. The history is linearizable when each operation can have taken effect at one
// moment between its call and its return, such that every answer is what one copy of the data would have said. An operation whose
// answer was lost may have taken effect at any moment after its call, or never. Keys are checked one by one: linearizability is a
// property of each.
//
// It ends with 0 when all histories are linearizable, with 1 and the key when one is not, and with 2 when that is not known: the
// file is none, or there was too little time.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience is for one key.
const patience = 2 * time.Minute

// operation is one line. Values are never empty and never written twice, so that each tells who wrote it.
type operation struct {
	Client    int     `json:"client"`
	Call      int64   `json:"call"`
	Return    int64   `json:"return"`
	Operation string  `json:"operation"`
	Key       string  `json:"key"`
	Value     *string `json:"value"`    // put, compare-and-swap: what is written
	Expected  *string `json:"expected"` // compare-and-swap: what must be there; null: nothing
	Outcome   string  `json:"outcome"`  // ok, failed (certainly not done) or unknown
	Found     *string `json:"found"`    // get, refused compare-and-swap: what was there; null: nothing
	Swapped   *bool   `json:"swapped"`  // compare-and-swap
}

// The state of a key is its value, "" while there is none.
func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// step is what one copy of the data does: whether it could have given that answer, and what the key holds then.
func step(state, input, _ any) (bool, any) {
	now, o := state.(string), input.(operation)
	known := o.Outcome == "ok"
	switch o.Operation {
	case "put":
		return true, *o.Value
	case "get":
		return !known || now == text(o.Found), now
	default:
		fits := now == text(o.Expected)
		if known && (fits != *o.Swapped || !fits && now != text(o.Found)) {
			return false, now
		}
		if fits {
			return true, *o.Value
		}
		return true, now
	}
}

var model = porcupine.Model{Init: func() any { return "" }, Step: step}

func (o *operation) check() error {
	writes := o.Operation == "put" || o.Operation == "compare-and-swap"
	switch {
	case !writes && o.Operation != "get":
		return fmt.Errorf("there is no operation %q", o.Operation)
	case writes && text(o.Value) == "":
		return fmt.Errorf("a %s of nothing", o.Operation)
	case o.Outcome != "ok" && o.Outcome != "failed" && o.Outcome != "unknown":
		return fmt.Errorf("there is no outcome %q", o.Outcome)
	case o.Operation == "compare-and-swap" && o.Outcome == "ok" && o.Swapped == nil:
		return fmt.Errorf("it does not say whether it swapped")
	case o.Return < o.Call:
		return fmt.Errorf("it returned before it was called")
	}
	return nil
}

// read returns what counts of a history, by key.
func read(path string) (map[string][]operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	keys, written := map[string][]operation{}, map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var o operation
		err := json.Unmarshal(lines.Bytes(), &o)
		if err == nil {
			err = o.check()
		}
		if name := o.Key + "\x00" + text(o.Value); err == nil && o.Value != nil {
			if written[name] {
				err = fmt.Errorf("%q is written twice", *o.Value)
			}
			written[name] = true
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		keys[o.Key] = append(keys[o.Key], o)
	}
	return keys, lines.Err()
}

// history is what porcupine is asked about one key. Without those that certainly were not done, and without the gets that nobody
// heard of. A write of unknown outcome that nobody saw counts neither: it can always be thought to come last, and each would double
// what is to be searched.
func history(operations []operation) []porcupine.Operation {
	seen := map[string]bool{}
	for _, o := range operations {
		seen[text(o.Found)] = true
		seen[text(o.Expected)] = true
	}
	var all []porcupine.Operation
	for _, o := range operations {
		nobodySaw := o.Outcome == "unknown" && (o.Value == nil || !seen[*o.Value])
		if o.Outcome == "failed" || nobodySaw {
			continue
		}
		end := o.Return
		if o.Outcome == "unknown" {
			end = math.MaxInt64
		}
		all = append(all, porcupine.Operation{Input: o, Call: o.Call, Return: end})
	}
	return all
}

// check is the exit code for one file.
func check(path string) int {
	keys, err := read(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 2
	}
	names, operations, unknown := make([]string, 0, len(keys)), 0, 0
	for name, all := range keys {
		names = append(names, name)
		operations += len(all)
		for _, o := range all {
			if o.Outcome == "unknown" {
				unknown++
			}
		}
	}
	if operations == 0 {
		fmt.Fprintf(os.Stderr, "error: %s: there is no operation\n", path)
		return 2
	}
	sort.Strings(names)
	code := 0
	for _, name := range names {
		switch porcupine.CheckOperationsTimeout(model, history(keys[name]), patience) {
		case porcupine.Illegal:
			fmt.Printf("%s: %s is not linearizable\n", path, name)
			code = 1
		case porcupine.Unknown:
			fmt.Printf("%s: %s could not be checked within %s\n", path, name, patience)
			if code == 0 {
				code = 2
			}
		}
	}
	if code == 0 {
		fmt.Printf("%s: linearizable: %d operations on %d keys, the outcome of %d unknown\n", path, operations, len(keys), unknown)
	}
	return code
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: linearizable FILE...")
		os.Exit(2)
	}
	worst := 0
	for _, path := range os.Args[1:] {
		if code := check(path); worst == 0 || code == 1 {
			worst = code
		}
	}
	os.Exit(worst)
}
