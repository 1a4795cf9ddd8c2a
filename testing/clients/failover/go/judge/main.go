// Judges a history of registers for linearizability, by porcupine: reads the lines that history.py
// describes from standard input, prints a line for each register, or group of registers, and ends
// with 1 where one of them has no order that explains it. A call whose outcome is unknown may have happened at any time
// after it began, or never; a refused one never happened.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct {
	operation     string
	argument, old int64
	steps         []step // of a call of several registers
	rollsBack     bool
}

type output struct {
	known bool
	value int64
	rows  []int64 // for each step
}

var refused = map[string]bool{"-1": true, "-2": true, "-5": true, "-14": true, "-15": true}

var register = porcupine.Model{
	Init: func() interface{} { return int64(0) },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		now, asked, answered := state.(int64), in.(input), out.(output)
		switch asked.operation {
		case "get":
			return answered.value == now, now
		case "put":
			return true, asked.argument
		default:
			matches := now == asked.old
			if answered.known && (answered.value == 1) != matches {
				return false, now
			}
			if matches {
				return true, asked.argument
			}
			return true, now
		}
	},
	DescribeOperation: func(in, out interface{}) string { return fmt.Sprintf("%v -> %v", in, out) },
}

// Whether a call is one of several registers, whose key is their group.
func isOfGroup(operation string) bool {
	return operation == "multi" || operation == "single"
}

// The registers' histories by key.
func read() (map[int64][]porcupine.Operation, error) {
	histories := map[int64][]porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), 1<<20)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 10)
		if len(fields) < 9 {
			return nil, fmt.Errorf("not a line of a history: %s", lines.Text())
		}
		var numbers [9]int64
		for _, at := range []int{0, 2, 3, 4, 6, 7, 8} {
			number, err := strconv.ParseInt(fields[at], 10, 64)
			if err != nil {
				return nil, err
			}
			numbers[at] = number
		}
		operation, status := fields[1], fields[5]
		known := status == "1"
		if refused[status] || (operation == "get" && !known) {
			continue
		}
		asked := input{operation: operation, argument: numbers[3], old: numbers[4]}
		answered := output{known: known, value: numbers[6]}
		if isOfGroup(operation) {
			words := strings.SplitN(fields[len(fields)-1], " ", 3)
			if len(fields) < 10 || len(words) < 3 {
				return nil, fmt.Errorf("no steps and rows: %s", lines.Text())
			}
			var err error
			if asked.steps, asked.rollsBack, err = readSteps(words[0]); err != nil {
				return nil, err
			}
			if answered.rows, err = readRows(words[1]); err != nil {
				return nil, err
			}
		}
		end := numbers[8]
		if !known {
			end = math.MaxInt64
		}
		key := numbers[2]
		histories[key] = append(histories[key], porcupine.Operation{
			ClientId: int(numbers[0]), Input: asked, Call: numbers[7], Output: answered,
			Return: end})
	}
	return histories, lines.Err()
}

// The values that a call wrote, or tried to.
func (asked input) written() []int64 {
	if !isOfGroup(asked.operation) {
		return []int64{asked.argument}
	}
	var values []int64
	for _, step := range asked.steps {
		if step.writes {
			values = append(values, step.value)
		}
	}
	return values
}

// The values that a call with a known outcome found.
func found(asked input, answered output) []int64 {
	switch {
	case isOfGroup(asked.operation):
		return answered.rows
	case asked.operation == "get":
		return []int64{answered.value}
	case asked.operation == "cas" && answered.value == 1:
		return []int64{asked.old}
	}
	return nil
}

// The history without the writes of unknown outcome whose values nobody saw. Where it has an order,
// the whole one has it too: such a write may never have happened. Each of them doubles what a search
// of the whole history has to look at.
func withoutUnseen(history []porcupine.Operation) []porcupine.Operation {
	seen := map[int64]bool{}
	for _, call := range history {
		if answered := call.Output.(output); answered.known {
			for _, value := range found(call.Input.(input), answered) {
				seen[value] = true
			}
		}
	}
	var kept []porcupine.Operation
	for _, call := range history {
		keep := call.Output.(output).known
		for _, value := range call.Input.(input).written() {
			keep = keep || seen[value]
		}
		if keep {
			kept = append(kept, call)
		}
	}
	return kept
}

// Whether the history has an order that explains it; unknown where a minute is not enough to say.
func check(history []porcupine.Operation) porcupine.CheckResult {
	model := register
	if isOfGroup(history[0].Input.(input).operation) {
		model = group
	}
	result := porcupine.CheckOperationsTimeout(model, withoutUnseen(history), time.Minute)
	if result != porcupine.Ok {
		result = porcupine.CheckOperationsTimeout(model, history, time.Minute)
	}
	return result
}

func main() {
	histories, err := read()
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	bad := len(histories) == 0
	for key, history := range histories {
		result := check(history)
		what := "register"
		if isOfGroup(history[0].Input.(input).operation) {
			what = "group"
		}
		fmt.Printf("%s %d: %d calls, %s\n", what, key, len(history), result)
		bad = bad || result != porcupine.Ok
	}
	if bad {
		os.Exit(1)
	}
}
