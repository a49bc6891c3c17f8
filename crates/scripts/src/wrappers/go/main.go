// Calls main of a script with its arguments, and writes down what it returned. Runs inside, beside the script: nothing
// that it says is trusted outside.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"paddock.invalid/script/inner"
)

type call struct {
	Args    map[string]any    `json:"args"`
	Secrets map[string]string `json:"secrets"`
	Result  string            `json:"result"`
	Names   []string          `json:"names"`
}

func main() {
	var given call
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	if err := decoder.Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, "the call cannot be read:", err)
		os.Exit(1)
	}
	for place, variable := range given.Secrets {
		bind(given.Args, strings.Split(place, "/")[1:], os.Getenv(variable))
	}
	answer := inner.PaddockRun(given.Names, given.Args)
	if answer.Error != nil && answer.Error.Code == "script_failed" {
		fmt.Fprintln(os.Stderr, answer.Error.Message)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		message := "the result is no JSON: " + err.Error()
		text, _ = json.Marshal(inner.PaddockAnswer{Error: &inner.PaddockError{Code: "result_not_json", Message: message}})
	}
	if err := os.MkdirAll(filepath.Dir(given.Result), 0o755); err == nil {
		err = os.WriteFile(given.Result, text, 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, "the result cannot be written:", err)
			os.Exit(1)
		}
	}
	if answer.Error != nil || err != nil {
		os.Exit(1)
	}
}

// Values that never enter: their placeholders are put where the arguments have them.
func bind(inside any, steps []string, value string) {
	step := strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[0])
	switch found := inside.(type) {
	case map[string]any:
		if len(steps) == 1 {
			found[step] = value
		} else {
			bind(found[step], steps[1:], value)
		}
	case []any:
		number, err := strconv.Atoi(step)
		if err != nil || number >= len(found) {
			return
		}
		if len(steps) == 1 {
			found[number] = value
		} else {
			bind(found[number], steps[1:], value)
		}
	}
}
