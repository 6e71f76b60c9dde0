import io.vertx.amqp.AmqpClient;
import io.vertx.amqp.AmqpClientOptions;
import io.vertx.amqp.AmqpConnection;
import io.vertx.core.Vertx;
import java.net.URI;
import java.util.concurrent.atomic.AtomicBoolean;

/** The AMQP client of Vert.x: a sender and a receiver on `orders`. The application connects anew when it is told. */
public class VertxClient {
    private static AmqpClient client;
    private static Vertx vertx;

    public static void main(String[] arguments) {
        URI uri = URI.create(arguments[0]);
        vertx = Vertx.vertx();
        client = AmqpClient.create(vertx, new AmqpClientOptions().setHost(uri.getHost()).setPort(uri.getPort()));
        connect();
    }

    private static void connect() {
        client.connect().onSuccess(VertxClient::serve).onFailure(error -> again(error));
    }

    private static void serve(AmqpConnection connection) {
        AtomicBoolean over = new AtomicBoolean();
        connection.exceptionHandler(error -> {
            if (over.compareAndSet(false, true)) {
                again(error);
            }
        });
        connection.createSender("orders");
        connection.createReceiver("orders");
    }

    private static void again(Throwable error) {
        System.out.println(error);
        vertx.setTimer(100, timer -> connect());
    }
}
