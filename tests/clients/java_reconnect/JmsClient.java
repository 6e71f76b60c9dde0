import jakarta.jms.Connection;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Qpid JMS with a failover URL and its default options: a producer and a consumer on `orders`. */
public class JmsClient {
    public static void main(String[] arguments) throws Exception {
        Connection connection = new JmsConnectionFactory("failover:(" + arguments[0] + ")").createConnection();
        connection.setExceptionListener(error -> System.out.println(error));
        connection.start();
        Session session = connection.createSession();
        session.createProducer(session.createQueue("orders"));
        MessageConsumer consumer = session.createConsumer(session.createQueue("orders"));
        consumer.receive();
    }
}
