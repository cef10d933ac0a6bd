// Calls a function of a Lua script on JSON documents, as Karmada's interpreter does, and prints the result as JSON:
// karmada-lua SCRIPT FUNCTION <ARGUMENTS.json, a list.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
)

func main() {
	var arguments []any
	check(json.NewDecoder(os.Stdin).Decode(&arguments))
	// Karmada opens these libraries alone.
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	libraries := map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	}
	for name, open := range libraries {
		check(state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	check(state.DoFile(os.Args[1]))
	values := make([]lua.LValue, 0, len(arguments))
	for _, argument := range arguments {
		values = append(values, toLua(state, argument))
	}
	check(state.CallByParam(lua.P{Fn: state.GetGlobal(os.Args[2]), NRet: 1, Protect: true}, values...))
	check(json.NewEncoder(os.Stdout).Encode(fromLua(state.Get(-1))))
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}

// A table with a first element is a list.
func fromLua(value lua.LValue) any {
	switch value := value.(type) {
	case lua.LBool:
		return bool(value)
	case lua.LNumber:
		return float64(value)
	case lua.LString:
		return string(value)
	case *lua.LTable:
		if value.Len() > 0 {
			list := make([]any, 0, value.Len())
			value.ForEach(func(_, item lua.LValue) { list = append(list, fromLua(item)) })
			return list
		}
		object := map[string]any{}
		value.ForEach(func(key, item lua.LValue) { object[key.String()] = fromLua(item) })
		return object
	}
	return nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
