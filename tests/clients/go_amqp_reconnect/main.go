// go-amqp with default settings: a sender and a receiver on `orders`. The library never reconnects: the application
// does, at once, when a call fails.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/Azure/go-amqp"
)

func serve(ctx context.Context) error {
	connection, err := amqp.Dial(ctx, os.Args[1], nil)
	if err != nil {
		return err
	}
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	if _, err = session.NewSender(ctx, "orders", nil); err != nil {
		return err
	}
	receiver, err := session.NewReceiver(ctx, "orders", nil)
	if err != nil {
		return err
	}
	_, err = receiver.Receive(ctx, nil)
	return err
}

func main() {
	for {
		fmt.Println(serve(context.Background()))
	}
}
