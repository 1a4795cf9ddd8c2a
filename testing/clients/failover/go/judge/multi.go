// Calls that read and write several registers of a group, each as one transaction.
package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

const registersOfGroup = 6

// A step reads a register, or writes a value to it.
type step struct {
	writes   bool
	register int
	value    int64
}

// The state is the values of all registers of the group. A call executes its steps in order, and no
// other call between them. A call that asks for a rollback never succeeds, and has no effect.
var group = porcupine.Model{
	Init: func() interface{} { return [registersOfGroup]int64{} },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		now, asked, answered := state.([registersOfGroup]int64), in.(input), out.(output)
		if asked.rollsBack {
			return !answered.known, state
		}
		if answered.known && len(answered.rows) != len(asked.steps) {
			return false, state
		}
		for at, step := range asked.steps {
			if step.writes {
				if answered.known && answered.rows[at] != 1 {
					return false, state
				}
				now[step.register] = step.value
			} else if answered.known && answered.rows[at] != now[step.register] {
				return false, state
			}
		}
		return true, now
	},
	DescribeOperation: func(in, out interface{}) string { return fmt.Sprintf("%v -> %v", in, out) },
}

// The steps of a call, and whether it asks for a rollback, from the first word before its text.
func readSteps(word string) (steps []step, rollsBack bool, err error) {
	word, rollsBack = strings.CutSuffix(word, ";x")
	for _, word := range strings.Split(strings.ReplaceAll(word, ";", ","), ",") {
		var one step
		register, value, writes := strings.Cut(strings.TrimLeft(word, "rw"), "=")
		one.writes = writes
		if one.register, err = strconv.Atoi(register); err != nil {
			return nil, false, err
		}
		if one.register < 0 || one.register >= registersOfGroup {
			return nil, false, fmt.Errorf("register %d of %d", one.register, registersOfGroup)
		}
		if writes {
			if one.value, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, false, err
			}
		}
		steps = append(steps, one)
	}
	return steps, rollsBack, nil
}

// The rows of an answer, from the second word before its text.
func readRows(word string) (rows []int64, err error) {
	if word == "-" {
		return nil, nil
	}
	for _, word := range strings.Split(word, ",") {
		row, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
