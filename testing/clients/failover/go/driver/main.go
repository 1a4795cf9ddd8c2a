// Load through VoltDB's unmodified Go client: what each call did, a line each. Arguments and lines
// are those of python_driver.py and history.py. Each worker has a client with the addresses of all
// hosts: this client does not learn them.
package main

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	volt "github.com/VoltDB/voltdb-client-go/voltdbclient"
)

const (
	limit          = 10 * time.Second
	keys           = 5
	groups         = 4 // of registers, each with so many partitioning keys, with so many registers
	parts          = 3
	ofPart         = 2
	stride         = 1_000_000
	clockMonotonic = 1
)

type shared struct {
	addresses string
	mode      string
	workers   int
	stopped   atomic.Bool
	output    sync.Mutex
	tried     []atomic.Int64
}

type worker struct {
	*shared
	number int
	client *volt.Conn
}

// Microseconds of the system's monotonic clock, which other processes read, too.
func now() int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano() / 1000
}

// The first column of all rows.
func columnOf(rows driver.Rows) (column []int64) {
	found, isTable := rows.(*volt.VoltRows)
	for isTable && found.ColumnCount() > 0 && found.AdvanceRow() {
		value, err := found.GetBigInt(0)
		if err != nil || value == nil {
			return nil
		}
		column = append(column, value.(int64))
	}
	return column
}

// A word for the rows of an answer, as in a history.
func wordOf(column []int64) string {
	if len(column) == 0 {
		return "-"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(column), " ", ","), "[]")
}

// The status and text of an answer: this client makes no error of an answer that is one.
func answered(rows driver.Rows) (string, string) {
	answer := rows.(*volt.VoltRows).Response()
	text := strings.Join(strings.Fields(answer.GetStatusString()), " ")
	if text == "" {
		text = "-"
	}
	return strconv.Itoa(int(answer.GetStatus())), text
}

// The status of a call without an answer, as in a history.
func statusOf(failure error) string {
	var answer volt.VoltError
	if !errors.As(failure, &answer) {
		return "lost"
	}
	status := answer.GetStatus()
	if status == volt.ConnectionTimeout {
		if strings.Contains(failure.Error(), "imed out") || failure.Error() == "timeout" {
			return "late"
		}
		return "lost"
	}
	return strconv.Itoa(int(status))
}

// One call of numbers and its line; the value that came back, and whether the call succeeded.
func (w *worker) call(operation, procedure string, key, argument, old int64, values ...int64) (int64, bool) {
	arguments := make([]driver.Value, len(values))
	for at, value := range values {
		arguments[at] = value
	}
	return w.send(operation, procedure, key, argument, old, "-", arguments)
}

func (w *worker) send(operation, procedure string, key, argument, old int64, steps string,
	arguments []driver.Value) (int64, bool) {
	begin := now()
	rows, failure := w.client.QueryTimeout(procedure, arguments, limit)
	end := now()
	status, text := "1", "-"
	var column []int64
	if failure != nil {
		status, text = statusOf(failure), strings.Join(strings.Fields(failure.Error()), " ")
	} else if status, text = answered(rows); status == "1" {
		column = columnOf(rows)
	}
	value := int64(-1)
	if len(column) > 0 {
		value = column[0]
	}
	if w.mode == "transactions" {
		text = steps + " " + wordOf(column) + " " + text
	}
	w.output.Lock()
	fmt.Println(w.number, operation, key, argument, old, status, value, begin, end, text)
	w.output.Unlock()
	if status != "1" {
		time.Sleep(10 * time.Millisecond) // spares a machine whose cluster is electing
	}
	return value, status == "1"
}

func (w *worker) load() {
	var known []int64
	for count := int64(1); !w.stopped.Load(); count++ {
		key := int64(w.number)*stride + count
		turn := count % 8
		switch {
		case turn == 0:
			w.call("bump", "bump", 0, 0, 0)
		case turn == 4:
			w.call("note", "note", key, 0, 0, key)
		case (turn == 1 || turn == 5) && len(known) > 0:
			key = known[rand.Intn(len(known))]
			if turn == 1 {
				key = known[len(known)-1]
			}
			w.call("read", "find", key, 0, 0, key)
		case turn == 3 || turn == 7:
			key = w.tried[(w.number+1)%w.workers].Load()
			w.call("peek", "find", key, 0, 0, key)
		default:
			w.tried[w.number].Store(key)
			if _, ok := w.call("insert", "add_one", key, 0, 0, key); ok {
				known = append(known, key)
			}
		}
	}
}

func (w *worker) registers() {
	var seen [keys]int64
	for count := int64(1); !w.stopped.Load(); count++ {
		key, fresh := int64(rand.Intn(keys)), int64(w.number)*stride+count
		switch rand.Intn(4) {
		case 0, 1:
			if value, ok := w.call("get", "get_one", key, 0, 0, key); ok {
				seen[key] = value
			}
		case 2:
			w.call("put", "put_one", key, fresh, 0, fresh, key)
		default:
			w.call("cas", "cas_one", key, fresh, seen[key], fresh, key, seen[key])
		}
	}
}

func (w *worker) transactions() {
	var seen [keys]int64
	for count := int64(1); !w.stopped.Load(); count++ {
		fresh := int64(w.number)*stride + count*parts
		if rand.Intn(2) == 0 {
			w.redundant(&seen, fresh)
		} else {
			w.several(fresh)
		}
	}
}

// Steps on one to three registers of a group, all of one partition or not.
func (w *worker) several(fresh int64) {
	group, part := rand.Intn(groups), rand.Intn(parts)
	if rand.Intn(2) == 0 {
		registers := rand.Perm(ofPart)
		for at := range registers {
			registers[at] += part * ofPart
		}
		steps := stepsOn(registers, fresh)
		w.send("single", "SingleRegisters", int64(group), 0, 0, steps,
			[]driver.Value{int64(1 + part), int64(group), steps})
		return
	}
	steps := stepsOn(rand.Perm(parts*ofPart), fresh)
	w.send("multi", "MultiRegisters", int64(group), 0, 0, steps,
		[]driver.Value{int64(group), steps})
}

// Reads, writes, or a read and a write of each of the first registers, in a batch with the step
// before or in the next one; some calls are rolled back at the end.
func stepsOn(registers []int, fresh int64) string {
	var text strings.Builder
	add := func(step string) {
		if text.Len() > 0 {
			text.WriteByte(",;"[rand.Intn(2)])
		}
		text.WriteString(step)
	}
	for at, register := range registers[:min(len(registers), 1+rand.Intn(3))] {
		kind := rand.Intn(3)
		if kind != 0 {
			add(fmt.Sprintf("r%d", register))
		}
		if kind != 1 {
			add(fmt.Sprintf("w%d=%d", register, fresh+int64(at)))
		}
	}
	if rand.Intn(8) == 0 {
		text.WriteString(";x")
	}
	return text.String()
}

func (w *worker) redundant(seen *[keys]int64, fresh int64) {
	key := int64(rand.Intn(keys))
	switch rand.Intn(4) {
	case 0, 1:
		if value, ok := w.call("get_all", "get_copies", key, 0, 0, key); ok {
			seen[key] = value
		}
	case 2:
		w.call("put_all", "put_copies", key, fresh, 0, fresh, key)
	default:
		w.call("cas_all", "cas_copies", key, fresh, seen[key], fresh, key, seen[key])
	}
}

func main() {
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	all := &shared{addresses: "voltdb://" + strings.Join(os.Args[4:], ",voltdb://"), workers: count,
		mode: os.Args[2], tried: make([]atomic.Int64, count)}
	var running sync.WaitGroup
	for number := 0; number < count; number++ {
		client, err := volt.OpenConn(all.addresses)
		if err != nil {
			panic(err)
		}
		w := &worker{shared: all, number: number, client: client}
		running.Add(1)
		go func() {
			defer running.Done()
			switch w.mode {
			case "load":
				w.load()
			case "registers":
				w.registers()
			default:
				w.transactions()
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	all.stopped.Store(true)
	running.Wait()
}
