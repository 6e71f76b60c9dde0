// A small AMQP client on go-amqp. One argument: JSON with url, role (send, receive, request, respond, login) and what it
// needs (see ../programs.py). Prints JSON lines: {"event": "ready"} when its links are up, and at the end
// {"event": "done", ...}.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

const deadline = 200 * time.Second

type arguments struct {
	URL        string   `json:"url"`
	Role       string   `json:"role"`
	Address    string   `json:"address"`
	Count      int      `json:"count"`
	Size       int      `json:"size"`
	Presettled bool     `json:"presettled"`
	Outcomes   []string `json:"outcomes"`
	CA         string   `json:"ca"`
	Logins     []login  `json:"logins"`
}

type login struct {
	Name      string `json:"name"`
	URL       string `json:"url"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Cert      string `json:"cert"`
	Key       string `json:"key"`
}

type result struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

type fields map[string]any

type message struct {
	Number  int    `json:"number"`
	Length  int    `json:"length"`
	Sha256  string `json:"sha256"`
	Settled bool   `json:"settled"`
}

type reply struct {
	CorrelationID string `json:"correlation_id"`
	Body          string `json:"body"`
}

func say(event string, values fields) {
	if values == nil {
		values = fields{}
	}
	values["event"] = event
	line, _ := json.Marshal(values)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		say("failed", fields{"error": err.Error()})
		os.Exit(1)
	}
}

func (a arguments) body(number int) string {
	return fmt.Sprintf("%d:%s", number, strings.Repeat("x", a.Size))
}

func text(body string) *amqp.Message {
	return &amqp.Message{Value: body}
}

func send(ctx context.Context, session *amqp.Session, a arguments) fields {
	options := &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeUnsettled.Ptr()}
	if a.Presettled {
		options.SettlementMode = amqp.SenderSettleModeSettled.Ptr()
	}
	sender, err := session.NewSender(ctx, a.Address, options)
	check(err)
	say("ready", nil)
	outcomes := map[string]int{}
	receipts := []amqp.SendReceipt{}
	for number := 0; number < a.Count; number++ {
		m := text(a.body(number))
		m.Header = &amqp.MessageHeader{Durable: true}
		m.ApplicationProperties = map[string]any{"number": int64(number)}
		if a.Presettled {
			check(sender.Send(ctx, m, nil))
			outcomes["presettled"]++
			continue
		}
		receipt, err := sender.SendWithReceipt(ctx, m, nil)
		check(err)
		receipts = append(receipts, receipt)
	}
	for _, receipt := range receipts {
		state, err := receipt.Wait(ctx)
		check(err)
		outcomes[name(state)]++
	}
	// The router's answer says that all has arrived. Closing the connection at once would make the kernel throw away what
	// it has not sent yet, where anything of the router's (credit, say) has come in unread.
	check(sender.Close(ctx))
	return fields{"outcomes": outcomes}
}

func name(state amqp.DeliveryState) string {
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

func receive(ctx context.Context, session *amqp.Session, a arguments) fields {
	options := &amqp.ReceiverOptions{Credit: -1, SettlementMode: amqp.ReceiverSettleModeFirst.Ptr()}
	if a.Presettled {
		options.RequestedSenderSettleMode = amqp.SenderSettleModeSettled.Ptr()
	}
	receiver, err := session.NewReceiver(ctx, a.Address, options)
	check(err)
	check(receiver.IssueCredit(uint32(a.Count)))
	say("ready", nil)
	outcomes := a.Outcomes
	if len(outcomes) == 0 {
		outcomes = []string{"accept"}
	}
	messages := []message{}
	for len(messages) < a.Count {
		m, err := receiver.Receive(ctx, nil)
		check(err)
		body := m.Value.(string)
		number, err := strconv.Atoi(body[:strings.Index(body, ":")])
		check(err)
		digest := sha256.Sum256([]byte(body))
		if !a.Presettled {
			check(settle(ctx, receiver, m, outcomes[len(messages)%len(outcomes)]))
		}
		messages = append(messages, message{number, len(body), hex.EncodeToString(digest[:]), a.Presettled})
	}
	return fields{"messages": messages}
}

func settle(ctx context.Context, receiver *amqp.Receiver, m *amqp.Message, outcome string) error {
	switch outcome {
	case "accept":
		return receiver.AcceptMessage(ctx, m)
	case "reject":
		return receiver.RejectMessage(ctx, m, &amqp.Error{Condition: "test:refused", Description: "as asked"})
	case "release":
		return receiver.ReleaseMessage(ctx, m)
	case "modify":
		return receiver.ModifyMessage(ctx, m, &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: true})
	}
	return fmt.Errorf("unknown outcome %s", outcome)
}

func request(ctx context.Context, session *amqp.Session, a arguments) fields {
	receiver, err := session.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true, Credit: 10})
	check(err)
	sender, err := session.NewSender(ctx, a.Address, nil)
	check(err)
	replyTo := receiver.Address()
	say("ready", fields{"reply_to": replyTo})
	replies := []reply{}
	for number := 0; number < a.Count; number++ {
		m := text(a.body(number))
		m.Properties = &amqp.MessageProperties{ReplyTo: &replyTo, CorrelationID: fmt.Sprintf("request-%d", number)}
		check(sender.Send(ctx, m, nil))
		answer, err := receiver.Receive(ctx, nil)
		check(err)
		check(receiver.AcceptMessage(ctx, answer))
		replies = append(replies, reply{answer.Properties.CorrelationID.(string), answer.Value.(string)})
	}
	return fields{"replies": replies}
}

func respond(ctx context.Context, session *amqp.Session, a arguments) fields {
	receiver, err := session.NewReceiver(ctx, a.Address, &amqp.ReceiverOptions{Credit: 10})
	check(err)
	sender, err := session.NewSender(ctx, "", nil)
	check(err)
	say("ready", nil)
	for number := 0; number < a.Count; number++ {
		m, err := receiver.Receive(ctx, nil)
		check(err)
		check(receiver.AcceptMessage(ctx, m))
		answer := text(strings.ToUpper(m.Value.(string)))
		answer.Properties = &amqp.MessageProperties{To: m.Properties.ReplyTo, CorrelationID: m.Properties.CorrelationID}
		check(sender.Send(ctx, answer, nil))
	}
	return fields{"answered": a.Count}
}

// logIn tries one login after the other: who gets in has no error.
func logIn(ctx context.Context, a arguments) fields {
	results := []result{}
	for _, one := range a.Logins {
		text := ""
		if conn, err := amqp.Dial(ctx, one.URL, options(one, a.CA)); err != nil {
			text = err.Error()
		} else {
			_ = conn.Close()
		}
		results = append(results, result{one.Name, text})
	}
	return fields{"results": results}
}

func options(one login, ca string) *amqp.ConnOptions {
	pem, err := os.ReadFile(ca)
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	secure := &tls.Config{RootCAs: trusted}
	if one.Cert != "" {
		pair, err := tls.LoadX509KeyPair(one.Cert, one.Key)
		check(err)
		// Not Certificates: of those, Go sends none whose issuer the router does not name.
		secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	by := map[string]amqp.SASLType{
		"PLAIN":     amqp.SASLTypePlain(one.User, one.Password),
		"ANONYMOUS": amqp.SASLTypeAnonymous(),
		"EXTERNAL":  amqp.SASLTypeExternal(""),
	}
	return &amqp.ConnOptions{SASLType: by[one.Mechanism], TLSConfig: secure}
}

func main() {
	var a arguments
	check(json.Unmarshal([]byte(os.Args[1]), &a))
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if a.Role == "login" {
		say("done", logIn(ctx, a))
		return
	}
	conn, err := amqp.Dial(ctx, a.URL, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	check(err)
	session, err := conn.NewSession(ctx, nil)
	check(err)
	roles := map[string]func(context.Context, *amqp.Session, arguments) fields{
		"send": send, "receive": receive, "request": request, "respond": respond,
	}
	result := roles[a.Role](ctx, session, a)
	check(conn.Close())
	say("done", result)
}
