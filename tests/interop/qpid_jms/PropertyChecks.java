import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.Enumeration;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.qpid.jms.message.JmsMessage;
import org.apache.qpid.jms.provider.amqp.message.AmqpJmsMessageFacade;

/** What a message says besides its body, and what a connection learns about its peer. */
final class PropertyChecks {
    private PropertyChecks() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("properties", PropertyChecks::properties);
        checks.put("annotations", PropertyChecks::annotations);
        checks.put("equal_client_ids", PropertyChecks::equalClientIds);
    }

    private static String properties(Scene scene) throws JMSException {
        Session session = scene.session();
        MapMessage sent = session.createMapMessage();
        sent.setInt("int", -7);
        sent.setBytes("bytes", new byte[] {0, -1});
        sent.setJMSType("kind");
        sent.setJMSCorrelationID("correlation \u00e9");
        sent.setJMSReplyTo(scene.queue(session, "replies"));
        sent.setBooleanProperty("boolean", true);
        sent.setByteProperty("byte", (byte) -1);
        sent.setShortProperty("short", (short) -300);
        sent.setIntProperty("integer", Integer.MIN_VALUE);
        sent.setLongProperty("long", Long.MAX_VALUE);
        sent.setFloatProperty("float", 1.5f);
        sent.setDoubleProperty("double", -2.25);
        sent.setStringProperty("string", "x".repeat(300) + "\u20ac");
        sent.setStringProperty("JMSXGroupID", "group");
        sent.setIntProperty("JMSXGroupSeq", 3);
        try (MessageProducer producer = session.createProducer(scene.queue(session))) {
            producer.send(sent, DeliveryMode.NON_PERSISTENT, 7, 3_600_000);
        }
        MapMessage found = (MapMessage) Scene.next(session.createConsumer(scene.queue(session)));
        Scene.same("int", -7, found.getInt("int"));
        Scene.same("bytes", -1, (int) found.getBytes("bytes")[1]);
        for (String name : names(sent)) {
            Scene.same(name, sent.getObjectProperty(name), found.getObjectProperty(name));
        }
        Scene.same("headers", headers(sent), headers(found));
        Scene.same("redelivered", false, found.getJMSRedelivered());
        return names(found).toString();
    }

    private static TreeSet<String> names(Message message) throws JMSException {
        TreeSet<String> names = new TreeSet<>();
        Enumeration<?> all = message.getPropertyNames();
        while (all.hasMoreElements()) names.add("" + all.nextElement());
        return names;
    }

    private static Map<String, Object> headers(Message message) throws JMSException {
        Map<String, Object> headers = new TreeMap<>();
        headers.put("id", message.getJMSMessageID());
        headers.put("timestamp", message.getJMSTimestamp());
        headers.put("correlation", message.getJMSCorrelationID());
        headers.put("reply to", message.getJMSReplyTo());
        headers.put("destination", message.getJMSDestination());
        headers.put("mode", message.getJMSDeliveryMode());
        headers.put("type", message.getJMSType());
        headers.put("expiration", message.getJMSExpiration());
        headers.put("priority", message.getJMSPriority());
        return headers;
    }

    /** The client's own annotations arrive, and no others than those that the broker adds. */
    private static String annotations(Scene scene) throws JMSException {
        Session session = scene.session();
        TextMessage message = session.createTextMessage("annotated");
        AmqpJmsMessageFacade sent = facade(message);
        sent.setTracingAnnotation("x-opt-own", "value");
        sent.setTracingAnnotation("x-opt-qd-own", Map.of("key", 1L));
        sent.setTracingAnnotation("own", 12);
        try (MessageProducer producer = session.createProducer(scene.queue(session))) {
            producer.send(message);
        }
        AmqpJmsMessageFacade found = facade(Scene.next(session.createConsumer(scene.queue(session))));
        Scene.same("x-opt-own", "value", found.getTracingAnnotation("x-opt-own"));
        Scene.same("x-opt-qd-own", Map.of("key", 1L), found.getTracingAnnotation("x-opt-qd-own"));
        Scene.same("own", 12, found.getTracingAnnotation("own"));
        TreeSet<String> names = new TreeSet<>();
        found.filterTracingAnnotations((name, value) -> names.add(name));
        return names.toString();
    }

    private static AmqpJmsMessageFacade facade(Message message) {
        return (AmqpJmsMessageFacade) ((JmsMessage) message).getFacade();
    }

    /** A second connection with the client-id of a first one is refused. */
    private static String equalClientIds(Scene scene) throws JMSException {
        scene.connectAs(scene.own("client"));
        try {
            scene.connectAs(scene.own("client"));
        } catch (JMSException e) {
            return e.getClass().getSimpleName();
        }
        throw new AssertionError("two connections of one client");
    }
}
