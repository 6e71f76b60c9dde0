import java.net.URI;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Receiver;

/** ProtonJ2: a sender and a receiver on `orders`. It reconnects only when told to: that is the one option given. */
public class ProtonJ2Client {
    public static void main(String[] arguments) throws Exception {
        URI uri = new URI(arguments[0]);
        ConnectionOptions options = new ConnectionOptions();
        options.reconnectEnabled(true);
        Connection connection = Client.create().connect(uri.getHost(), uri.getPort(), options);
        connection.openSender("orders").openFuture().get();
        Receiver receiver = connection.openReceiver("orders");
        receiver.receive();
    }
}
