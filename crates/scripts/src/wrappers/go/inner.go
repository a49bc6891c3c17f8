package inner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

type PaddockError struct {
	Code    string `json:"code"`
	Name    string `json:"name,omitempty"`
	Message string `json:"message"`
}

type PaddockAnswer struct {
	Result any           `json:"result"`
	Error  *PaddockError `json:"error,omitempty"`
}

func PaddockRun(names []string, args map[string]any) PaddockAnswer {
	function := reflect.ValueOf(PADDOCK_MAIN)
	kind := function.Type()
	known := "none"
	if len(names) > 0 {
		known = strings.Join(names, ", ")
	}
	for name := range args {
		if !paddockHas(names, name) {
			return paddockRefused("arguments_do_not_fit", "main has no parameter `%s`; its parameters are: %s", name, known)
		}
	}
	var values []reflect.Value
	for number, name := range names {
		wanted := kind.In(number)
		value := reflect.New(wanted)
		given, has := args[name]
		if !has && wanted.Kind() != reflect.Pointer && wanted.Kind() != reflect.Interface && !(kind.IsVariadic() && number == len(names)-1) {
			return paddockRefused("arguments_do_not_fit", "argument `%s` is missing; main's parameters are: %s", name, known)
		}
		if has {
			text, err := json.Marshal(given)
			if err == nil {
				err = json.Unmarshal(text, value.Interface())
			}
			if err != nil {
				return paddockRefused("arguments_do_not_fit", "argument `%s` is no %s: %s", name, wanted, err)
			}
		}
		values = append(values, value.Elem())
	}
	var returned []reflect.Value
	if kind.IsVariadic() {
		returned = function.CallSlice(values)
	} else {
		returned = function.Call(values)
	}
	failure := reflect.TypeOf((*error)(nil)).Elem()
	answer := PaddockAnswer{}
	for number, value := range returned {
		if number == len(returned)-1 && value.Type() == failure {
			if !value.IsNil() {
				err := value.Interface().(error)
				answer.Error = &PaddockError{Code: "script_failed", Name: fmt.Sprintf("%T", err), Message: err.Error()}
			}
			continue
		}
		answer.Result = value.Interface()
	}
	return answer
}

func paddockHas(names []string, name string) bool {
	for _, known := range names {
		if known == name {
			return true
		}
	}
	return false
}

func paddockRefused(code string, format string, values ...any) PaddockAnswer {
	return PaddockAnswer{Error: &PaddockError{Code: code, Message: fmt.Sprintf(format, values...)}}
}
