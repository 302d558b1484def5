"""A broker that knows who asks, and what each may do: `admin` everything, `few` what a test grants."""

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from isotherm.demo.stack import Kafka
from isotherm.demo.stack.ports import HOST, free_ports

PASSWORD = "hunter2"  # noqa: S105 (it must not be shown)


class GuardedKafka(Kafka):
    """Its second listener asks for a name; whoever comes by the first one may do everything."""

    def __init__(self, folder):
        super().__init__(folder, auto_create_topics=False)
        self._named_port = free_ports(1)[0]

    def properties_of(self, name):
        """librdkafka's, for a principal."""
        return {
            "bootstrap.servers": f"{HOST}:{self._named_port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": name,
            "sasl.password": PASSWORD,
        }

    def grant(self, resource, name, *operations):
        """Let `few` do something."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        bindings = [
            AclBinding(
                ResourceType[resource],
                name,
                ResourcePatternType.LITERAL,
                "User:few",
                "*",
                AclOperation[one],
                AclPermissionType.ALLOW,
            )
            for one in operations
        ]
        for future in admin.create_acls(bindings).values():
            future.result(30)

    def _properties(self, port, controller_port):
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        users = " ".join(f'user_{name}="{PASSWORD}"' for name in ("admin", "few"))
        return {
            **super()._properties(port, controller_port),
            "listeners": f"PLAINTEXT://{HOST}:{port},NAMED://{HOST}:{self._named_port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port},NAMED://{HOST}:{self._named_port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,NAMED:SASL_PLAINTEXT",
            "listener.name.named.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.named.plain.sasl.jaas.config": f"{plain} required {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
        }
