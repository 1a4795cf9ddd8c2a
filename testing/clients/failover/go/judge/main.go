// Judges a history of registers for linearizability, by porcupine: reads the lines that history.py
// describes from standard input, prints a line for each register, and ends with 1 where one of them
// has no order that explains it. A call whose outcome is unknown may have happened at any time
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
}

type output struct {
	known bool
	value int64
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
		end := numbers[8]
		if !known {
			end = math.MaxInt64
		}
		key := numbers[2]
		histories[key] = append(histories[key], porcupine.Operation{
			ClientId: int(numbers[0]), Input: input{operation, numbers[3], numbers[4]},
			Call: numbers[7], Output: output{known, numbers[6]}, Return: end})
	}
	return histories, lines.Err()
}

// The history without the writes of unknown outcome whose value nobody saw. Where it has an order,
// the whole one has it too: such a write may never have happened. Each of them doubles what a search
// of the whole history has to look at.
func withoutUnseen(history []porcupine.Operation) []porcupine.Operation {
	seen := map[int64]bool{}
	for _, call := range history {
		asked, answered := call.Input.(input), call.Output.(output)
		if answered.known && asked.operation == "get" {
			seen[answered.value] = true
		}
		if answered.known && asked.operation == "cas" && answered.value == 1 {
			seen[asked.old] = true
		}
	}
	var kept []porcupine.Operation
	for _, call := range history {
		if call.Output.(output).known || seen[call.Input.(input).argument] {
			kept = append(kept, call)
		}
	}
	return kept
}

// Whether the history has an order that explains it; unknown where a minute is not enough to say.
func check(history []porcupine.Operation) porcupine.CheckResult {
	result := porcupine.CheckOperationsTimeout(register, withoutUnseen(history), time.Minute)
	if result != porcupine.Ok {
		result = porcupine.CheckOperationsTimeout(register, history, time.Minute)
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
		fmt.Printf("register %d: %d calls, %s\n", key, len(history), result)
		bad = bad || result != porcupine.Ok
	}
	if bad {
		os.Exit(1)
	}
}
