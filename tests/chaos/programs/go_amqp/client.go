// A client of a run under faults, on go-amqp, which never reconnects: this program does. One argument: its plan as JSON
// (see ../../outside.py, which also says what it reads and writes).
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/Azure/go-amqp"
)

const (
	again      = 200 * time.Millisecond
	credit     = 20
	dialTime   = 20 * time.Second
	keptShare  = 0.2
	late       = time.Second
	monotonic  = 1 // CLOCK_MONOTONIC, as all clients have it
	writesTime = 5 * time.Second
)

type terms struct {
	Number  int
	Sends   bool    `json:"sends"`
	Address string  `json:"address"`
	Settled bool    `json:"settled"`
	Rate    float64 `json:"rate"`
	Window  int     `json:"window"`
}

type plan struct {
	Name    string         `json:"name"`
	Port    int            `json:"port"`
	CA      string         `json:"ca"`
	Idle    float64        `json:"idle_s"`
	Answers map[string]int `json:"answers"`
	Links   []terms        `json:"links"`
}

var (
	writing  sync.Mutex
	finished atomic.Bool
)

func now() float64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0)
	return float64(t.Sec) + float64(t.Nsec)/1e9
}

func write(row ...any) {
	line, _ := json.Marshal(row)
	writing.Lock()
	defer writing.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func choose(weights map[string]int) string {
	sum := 0
	for _, weight := range weights {
		sum += weight
	}
	left := rand.Intn(sum)
	for name, weight := range weights {
		if left -= weight; left < 0 {
			return name
		}
	}
	return ""
}

// connection is one connection of the client, and all that works on it.
type connection struct {
	plan    plan
	attempt int
	session *amqp.Session
	ctx     context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
	lock    sync.Mutex
	links   []string
}

// begin runs something until the connection ends, which it does when that fails.
func (c *connection) begin(run func() error) {
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		if run() != nil {
			c.end()
		}
	}()
}

func (c *connection) attached(l terms) string {
	name := fmt.Sprintf("%s.%d.%d", c.plan.Name, l.Number, c.attempt)
	write("Attached", now(), name, l.Address, l.Sends)
	c.lock.Lock()
	defer c.lock.Unlock()
	c.links = append(c.links, name)
	return name
}

func (c *connection) wait(d time.Duration) error {
	select {
	case <-c.ctx.Done():
		return c.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (c *connection) send(l terms) error {
	mode := amqp.SenderSettleModeUnsettled
	if l.Settled {
		mode = amqp.SenderSettleModeSettled
	}
	sender, err := c.session.NewSender(c.ctx, l.Address, &amqp.SenderOptions{SettlementMode: mode.Ptr()})
	if err != nil {
		return err
	}
	name := c.attached(l)
	window := make(chan struct{}, l.Window)
	for number := 0; ; number++ {
		if err := c.wait(time.Duration(float64(time.Second) / l.Rate)); err != nil {
			return err
		}
		select {
		case window <- struct{}{}:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
		if finished.Load() {
			<-c.ctx.Done()
			return c.ctx.Err()
		}
		id := fmt.Sprintf("%s:%d", name, number)
		at, size := now(), rand.Intn(100)
		message := &amqp.Message{Value: strings.Repeat("x", size), Header: &amqp.MessageHeader{Durable: true, Priority: 4}}
		message.ApplicationProperties = map[string]any{"message": id, "from": c.plan.Name, "at": at, "size": int64(size)}
		write("Sent", at, name, id, number, l.Settled)
		if l.Settled {
			if err := sender.Send(c.ctx, message, nil); err != nil {
				return err
			}
			<-window
			continue
		}
		receipt, err := sender.SendWithReceipt(c.ctx, message, nil)
		if err != nil {
			return err
		}
		c.begin(func() error {
			state, err := receipt.Wait(c.ctx)
			if err == nil {
				write("Outcome", now(), name, id, stateName(state))
				<-window
			}
			return err
		})
	}
}

func stateName(state amqp.DeliveryState) string {
	switch state.(type) {
	case *amqp.StateAccepted:
		return "accepted"
	case *amqp.StateRejected:
		return "rejected"
	case *amqp.StateReleased:
		return "released"
	case *amqp.StateModified:
		return "modified"
	}
	return fmt.Sprintf("%T", state)
}

// receive expects that nothing comes settled: the library does not tell.
func (c *connection) receive(l terms) error {
	receiver, err := c.session.NewReceiver(c.ctx, l.Address, &amqp.ReceiverOptions{Credit: -1})
	if err != nil {
		return err
	}
	name := c.attached(l)
	if err := receiver.IssueCredit(credit); err != nil {
		return err
	}
	for {
		message, err := receiver.Receive(c.ctx, nil)
		if err != nil {
			return err
		}
		words := message.ApplicationProperties
		id := fmt.Sprint(words["message"])
		if body, isText := message.Value.(string); !isText || fmt.Sprint(len(body)) != fmt.Sprint(words["size"]) {
			id += " damaged"
		}
		write("Received", now(), name, id, false)
		write("Through", words["from"], l.Address, words["at"])
		delay := time.Duration(0)
		if rand.Float64() < keptShare {
			delay = time.Duration(rand.Float64() * float64(late))
		}
		if delay == 0 {
			err = c.answer(receiver, message, name, id)
		} else {
			c.begin(func() error {
				if err := c.wait(delay); err != nil {
					return err
				}
				return c.answer(receiver, message, name, id)
			})
		}
		if err != nil {
			return err
		}
	}
}

func (c *connection) answer(receiver *amqp.Receiver, message *amqp.Message, name string, id string) error {
	state := choose(c.plan.Answers)
	write("Answered", now(), name, id, state)
	var err error
	switch state {
	case "accepted":
		err = receiver.AcceptMessage(c.ctx, message)
	case "rejected":
		err = receiver.RejectMessage(c.ctx, message, nil)
	case "released":
		err = receiver.ReleaseMessage(c.ctx, message)
	case "modified":
		err = receiver.ModifyMessage(c.ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true})
	}
	if err != nil {
		return err
	}
	return receiver.IssueCredit(1)
}

// serve connects, and returns when the connection has ended.
func serve(p plan, attempt int) error {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	dial, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	options := &amqp.ConnOptions{
		ContainerID: fmt.Sprintf("%s/%d", p.Name, attempt), SASLType: amqp.SASLTypeAnonymous(),
		IdleTimeout: time.Duration(p.Idle * float64(time.Second)), WriteTimeout: writesTime,
	}
	scheme := "amqp"
	if p.CA != "" { // read for each connection: authorities change
		scheme = "amqps"
		pem, err := os.ReadFile(p.CA)
		if err != nil {
			return err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(pem)
		options.TLSConfig = &tls.Config{RootCAs: trusted}
	}
	conn, err := amqp.Dial(dial, fmt.Sprintf("%s://127.0.0.1:%d", scheme, p.Port), options)
	if err != nil {
		return err
	}
	session, err := conn.NewSession(dial, nil)
	if err != nil {
		_ = conn.Close()
		return err
	}
	c := &connection{plan: p, attempt: attempt, session: session, ctx: ctx, end: end}
	for number, l := range p.Links {
		l := l
		l.Number = number
		c.begin(func() error {
			if l.Sends {
				return c.send(l)
			}
			return c.receive(l)
		})
	}
	select {
	case <-ctx.Done():
	case <-conn.Done():
		end()
	}
	err = conn.Close()
	c.work.Wait()
	for _, name := range c.links {
		write("Gone", now(), name, true)
	}
	return err
}

func main() {
	var p plan
	if err := json.Unmarshal([]byte(os.Args[1]), &p); err != nil {
		panic(err)
	}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if lines.Text() == "finish" {
				finished.Store(true)
			} else {
				write("Reached", json.Number(lines.Text()))
			}
		}
		os.Exit(0)
	}()
	for attempt := 1; ; attempt++ {
		if err := serve(p, attempt); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.Sleep(again)
	}
}
