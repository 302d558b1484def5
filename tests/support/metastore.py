"""A Hive metastore in this process, which speaks real Thrift: databases, tables, and locks that run out.

With `compares` it has HIVE-26882: it alters a table only where a parameter still has the value that the caller expects.
"""

import copy
import logging
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Condition, Thread

from hive_metastore.ThriftHiveMetastore import Processor
from hive_metastore.ttypes import (
    AlreadyExistsException,
    LockResponse,
    LockState,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException


class Metastore:
    """What it answers; the questions of each connection come in a thread of their own."""

    def __init__(self, *, compares=True):
        self.compares = compares
        self.databases, self.tables = {}, {}
        self.locks, self.numbers = {}, 0
        self.are_ignored = False
        """Whether others commit as if there were no locks."""
        self.while_reading = lambda _: None
        """Called with the name of a table that is read, before the answer goes out."""
        self.lost = []
        """Of each of the next swaps, whether it lands, or None; its answer is lost, and the connection with it."""
        self.connections = 0
        self.changed = Condition()

    # --- databases and tables

    def create_database(self, database):
        self.databases[database.name] = database

    def get_all_databases(self):
        return list(self.databases)

    def get_database(self, name):
        if name not in self.databases:
            raise NoSuchObjectException(name)
        return self.databases[name]

    def get_all_tables(self, db_name):
        return [table for database, table in self.tables if database == db_name]

    def get_table_objects_by_name(self, dbname, tbl_names):
        return [self.tables[dbname, table] for table in tbl_names]

    def create_table(self, tbl):
        if (tbl.dbName, tbl.tableName) in self.tables:
            raise AlreadyExistsException(tbl.tableName)
        self.tables[tbl.dbName, tbl.tableName] = tbl

    def get_table(self, dbname, tbl_name):
        if (dbname, tbl_name) not in self.tables:
            raise NoSuchObjectException(tbl_name)
        table = copy.deepcopy(self.tables[dbname, tbl_name])
        self.while_reading(tbl_name)
        return table

    def alter_table_with_environment_context(self, dbname, tbl_name, new_tbl, environment_context):
        lands = self.lost.pop(0) if self.lost else None
        with self.changed:
            there, asked = self.tables[dbname, tbl_name].parameters, environment_context.properties
            key, value = asked.get("expected_parameter_key"), asked.get("expected_parameter_value")
            if self.compares and key and there.get(key) != value:
                raise MetaException(
                    f"The table has been modified. The parameter value for key '{key}' is '{there.get(key)}'"
                )
            if lands is not False:
                self.tables[dbname, tbl_name] = new_tbl
        if lands is not None:
            raise TTransportException(message="the server hangs up")

    # --- locks: of those of one table the oldest is held

    def run_out(self):
        """Let all locks run out, as after `hive.txn.timeout` without a sign of life."""
        self.locks.clear()

    def lock(self, rqst):
        with self.changed:
            self.numbers += 1
            self.locks[self.numbers] = rqst.component[0].dbname, rqst.component[0].tablename
            return self._state_of(self.numbers)

    def check_lock(self, rqst):
        with self.changed:
            return self._state_of(rqst.lockid)

    def unlock(self, rqst):
        with self.changed:
            self._state_of(rqst.lockid)
            del self.locks[rqst.lockid]

    def _state_of(self, number):
        if number not in self.locks:
            raise NoSuchLockException(f"No such lock {number}")
        oldest = min(other for other, table in self.locks.items() if table == self.locks[number])
        is_held = oldest == number or self.are_ignored
        return LockResponse(number, LockState.ACQUIRED if is_held else LockState.WAITING)

    # --- connections

    def answer(self, connection):
        """All that is asked on a connection."""
        socket = TSocket()
        socket.setHandle(connection)
        protocol, processor = TBinaryProtocol(TBufferedTransport(socket)), Processor(self)
        with suppress(TTransportException):
            while True:
                processor.process(protocol, protocol)

    def count(self, more):
        with self.changed:
            self.connections += more
            self.changed.notify_all()

    def wait_until_nobody_is_connected(self):
        with self.changed:
            return self.changed.wait_for(lambda: not self.connections, 30)


@contextmanager
def properties_of(metastore, folder):
    """Serve it; gives the properties of a catalog on it, whose files are in a folder."""
    logging.getLogger("thrift").setLevel(logging.CRITICAL)

    class Handler(BaseRequestHandler):
        def handle(self):
            metastore.count(1)
            metastore.answer(self.request)
            metastore.count(-1)

    class Server(ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield {
            "type": "hive",
            "uri": f"thrift://127.0.0.1:{server.server_address[1]}",
            "warehouse": f"file://{folder}/warehouse",
            "lock-check-min-wait-time": "0.001",
            "lock-check-max-wait-time": "0.001",
        }
        server.shutdown()
        thread.join()
