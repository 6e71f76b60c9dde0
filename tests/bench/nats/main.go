// Bench peer: nats-server core, and a client that sends and receives through it at most once.
//
//	nats serve PORT [CERTIFICATE KEY]    runs nats-server on loopback, with TLS if it gets a certificate
//	nats load PORT PID SECONDS WARMUP SIZE WINDOW [tls]
//
// `load` has one publisher and one subscriber, each on a connection of its own. At most WINDOW messages are on the way,
// so that the server never drops a slow consumer. It prints one JSON line: messages and CPU time of the process PID.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const subject = "bench"

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: nats serve PORT [CERTIFICATE KEY] | nats load PORT PID SECONDS WARMUP SIZE WINDOW [tls]")
	}
	port := number(os.Args[2])
	switch os.Args[1] {
	case "serve":
		serve(port, os.Args[3:])
	case "load":
		load(port, os.Args[3:])
	default:
		log.Fatalf("unknown command %s", os.Args[1])
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func serve(port int, files []string) {
	options := server.Options{Host: "127.0.0.1", Port: port, NoSigs: false, NoLog: true}
	if len(files) == 2 {
		pair, err := tls.LoadX509KeyPair(files[0], files[1])
		check(err)
		options.TLS, options.TLSTimeout = true, 5
		options.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	s, err := server.NewServer(&options)
	check(err)
	s.Start()
	s.WaitForShutdown()
}

// connect dials the server and finishes the handshake of the NATS client protocol. TLS begins after INFO.
func connect(port int, secure bool) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	check(err)
	reader := bufio.NewReaderSize(conn, 1<<18)
	_, err = reader.ReadString('\n') // INFO
	check(err)
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		reader = bufio.NewReaderSize(conn, 1<<18)
	}
	_, err = conn.Write([]byte("CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPING\r\n"))
	check(err)
	_, err = reader.ReadString('\n') // PONG
	check(err)
	return conn, reader
}

func load(port int, arguments []string) {
	secure := len(arguments) == 6 && arguments[5] == "tls"
	if len(arguments) != 5 && !secure {
		log.Fatal("load takes PORT PID SECONDS WARMUP SIZE WINDOW [tls]")
	}
	pid := number(arguments[0])
	seconds, err := strconv.ParseFloat(arguments[1], 64)
	check(err)
	warmup, err := strconv.ParseFloat(arguments[2], 64)
	check(err)
	size, window := number(arguments[3]), int64(number(arguments[4]))

	subscriber, from := connect(port, secure)
	_, err = subscriber.Write([]byte("SUB " + subject + " 1\r\nPING\r\n"))
	check(err)
	_, err = from.ReadString('\n')
	check(err)
	publisher, _ := connect(port, secure)

	var received, stop atomic.Int64
	more := make(chan struct{}, 1)
	go receive(from, size, &received, more)
	go publish(publisher, size, window, &received, &stop, more)

	time.Sleep(time.Duration(warmup * float64(time.Second)))
	count, cpu := received.Load(), onCPU(pid)
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	count, cpu = received.Load()-count, onCPU(pid)-cpu
	stop.Store(1)
	if count == 0 {
		log.Fatal("no message came through")
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"messages": count, "router_cpu_us_per_message": float64(cpu) / 1000 / float64(count),
	}))
}

// receive counts messages; all have the same length, so that counting octets is enough once the first was checked.
func receive(from *bufio.Reader, size int, received *atomic.Int64, more chan struct{}) {
	head := fmt.Sprintf("MSG %s 1 %d\r\n", subject, size)
	length := len(head) + size + 2
	first := make([]byte, length)
	_, err := io.ReadFull(from, first)
	check(err)
	if !strings.HasPrefix(string(first), head) {
		log.Fatalf("unexpected frame: %q", first[:len(head)])
	}
	buffer := make([]byte, 1<<18)
	octets := length
	for {
		received.Store(int64(octets / length))
		select {
		case more <- struct{}{}:
		default:
		}
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		octets += n
	}
}

func publish(to net.Conn, size int, window int64, received, stop *atomic.Int64, more chan struct{}) {
	message := []byte(fmt.Sprintf("PUB %s %d\r\n%s\r\n", subject, size, strings.Repeat("x", size)))
	const most = 64 // messages a write, as the load generator of AMQP does
	batch := bytes.Repeat(message, most)
	var sent int64
	for stop.Load() == 0 {
		room := window - (sent - received.Load())
		if room <= 0 {
			<-more
			continue
		}
		if room > most {
			room = most
		}
		if _, err := to.Write(batch[:int(room)*len(message)]); err != nil {
			return
		}
		sent += room
	}
}

// onCPU is the time in nanoseconds that all threads of a process were on a CPU.
func onCPU(pid int) int64 {
	var total int64
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		value, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		check(err)
		total += value
	}
	return total
}
