import io.quarkus.jdbc.postgresql.runtime.PostgreSQLServiceBindingConverter;
import io.quarkus.kubernetes.service.binding.runtime.ServiceBinding;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.springframework.cloud.bindings.Bindings;
import org.springframework.cloud.bindings.boot.PostgreSqlBindingsPropertiesProcessor;
import org.springframework.core.env.StandardEnvironment;

/** Logs in by the environment or a binding's folder as an app in Java does, and prints its role. */
class Login {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = connect(arguments[0]);
                var rows = connection.createStatement().executeQuery("SELECT current_user::text")) {
            rows.next();
            System.out.println(rows.getString(1));
        } catch (SQLException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                System.err.println(cause);
            }
            System.exit(1);
        }
    }

    private static Connection connect(String client) throws Exception {
        return switch (client) {
            case "spring" -> spring();
            case "quarkus" -> quarkus();
            default -> DriverManager.getConnection(System.getenv("SPRING_DATASOURCE_URL"));
        };
    }

    /** Connects by the properties that Spring Cloud Bindings sets for Spring Boot. */
    private static Connection spring() throws SQLException {
        Map<String, Object> properties = new HashMap<>();
        new PostgreSqlBindingsPropertiesProcessor()
                .process(new StandardEnvironment(), new Bindings(), properties);
        return DriverManager.getConnection(
                (String) properties.get("spring.datasource.url"),
                (String) properties.get("spring.datasource.username"),
                (String) properties.get("spring.datasource.password"));
    }

    /**
     * Connects by the properties that Quarkus' kubernetes-service-binding sets, or by the variable
     * if that has the higher ordinal, which is 300 for all variables.
     */
    private static Connection quarkus() throws Exception {
        List<ServiceBinding> bindings;
        try (Stream<Path> folders = Files.list(Path.of(System.getenv("SERVICE_BINDING_ROOT")))) {
            bindings = folders.map(ServiceBinding::new).toList();
        }
        var properties = new PostgreSQLServiceBindingConverter().convert(bindings).get();
        String url = System.getenv("QUARKUS_DATASOURCE_JDBC_URL");
        if (url == null || properties.getOrdinal() > 300) {
            url = properties.getValue("quarkus.datasource.jdbc.url");
        }
        return DriverManager.getConnection(
                url,
                properties.getValue("quarkus.datasource.username"),
                properties.getValue("quarkus.datasource.password"));
    }
}
