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
	stride         = 1_000_000
	clockMonotonic = 1
)

type shared struct {
	addresses string
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

// The value of the first row and column, or -1.
func valueOf(rows driver.Rows) int64 {
	found, isTable := rows.(*volt.VoltRows)
	if !isTable || found.ColumnCount() == 0 || !found.AdvanceRow() {
		return -1
	}
	if value, err := found.GetBigInt(0); err == nil && value != nil {
		return value.(int64)
	}
	return -1
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

// One call and its line; the value that came back, and whether the call succeeded.
func (w *worker) call(operation, procedure string, key, argument, old int64, values ...int64) (int64, bool) {
	arguments := make([]driver.Value, len(values))
	for at, value := range values {
		arguments[at] = value
	}
	begin := now()
	rows, failure := w.client.QueryTimeout(procedure, arguments, limit)
	end := now()
	status, text, value := "1", "-", int64(-1)
	if failure != nil {
		status, text = statusOf(failure), strings.Join(strings.Fields(failure.Error()), " ")
	} else if status, text = answered(rows); status == "1" {
		value = valueOf(rows)
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

func main() {
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	all := &shared{addresses: "voltdb://" + strings.Join(os.Args[4:], ",voltdb://"), workers: count,
		tried: make([]atomic.Int64, count)}
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
			if os.Args[2] == "load" {
				w.load()
			} else {
				w.registers()
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	all.stopped.Store(true)
	running.Wait()
}
