cimport cython
cdef class RouterConnection
cdef class RouterLink
cdef class Node
cdef class Target
cdef class Address
cdef class Queued
cdef class Group
cdef class Branch
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.link cimport Link
from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.pace cimport Pace
from waymesh_router.core.forwarding.speed cimport Speed
from waymesh_router.core.forwarding.window cimport Window

@cython.final
cdef class RouterConnection(Connection):
    cdef public long long id
    cdef public str role
    cdef public str origin
    cdef public str route_address
    cdef public str durable_names
    cdef public int management
    cdef public bint creates_link_routes
    cdef public bint multi_tenant
    cdef public str tenant
    cdef public bint management_files
    cdef public object peer
    cdef public int cost
    cdef public bint strip_in
    cdef public bint strip_out
    cdef public int link_capacity
    cdef public unsigned int handle_max
    cdef public Node node
    cdef public RouterLink control_in
    cdef public RouterLink control_out
    cdef public list data_out
    cdef public list data_in
    cdef public dict waiting
    cdef public double opened_at
    cdef public long long kept
    cdef public bint full
    cdef public long long opened
    cdef public long long heads
    cdef public double last_delivery_at
    cdef public bint no_local
    cdef public str policy_vhost
    cdef public bint for_managers
    cdef public object access
    cdef public bint uplink
    cdef public object edge_router
    cdef public bint streams
    cdef public Py_ssize_t stream_count
    cdef public dict shared_streams
    cpdef bint is_router(self) except -1
    cdef RouterLink data_link(self, int priority)

@cython.final
cdef class RouterLink(Link):
    cdef public long long id
    cdef public int kind
    cdef public int priority
    cdef public Address address
    cdef public bint anonymous
    cdef public bint checks_management
    cdef public bint checks_targets
    cdef public bint checks_user
    cdef public bint checks_messages
    cdef public object section_order
    cdef public object permit
    cdef public bint of_tenant
    cdef public tuple spaced
    cdef public bint strip
    cdef public Annotations annotations
    cdef public bytes seen_section
    cdef public Annotations seen_annotations
    cdef public bytes seen_to
    cdef public Address seen_address
    cdef public bytearray head
    cdef public Py_ssize_t head_due
    cdef public Py_ssize_t place
    cdef public Queued queued
    cdef public bint discard
    cdef public RouterLink feeder
    cdef public object queue
    cdef public dict awaited
    cdef public RouterLink partner
    cdef public object route
    cdef public Py_ssize_t held
    cdef public long long kept
    cdef public bint full
    cdef public bint braked
    cdef public str client
    cdef public bint stored
    cdef public bint retiring
    cdef public bint container
    cdef public bint edge
    cdef public bint streaming
    cdef public bint streamed
    cdef public dict stream_links
    cdef public bint known_elsewhere
    cdef public int consumer_priority
    cdef public int concurrency
    cdef public bint exclusive
    cdef public Speed speed
    cdef public Window window
    cdef public Pace pace
    cdef public long long waiting
    cdef public long long unsettled
    cdef public long long presettled
    cdef public long long dropped_presettled
    cdef public long long accepted
    cdef public long long rejected
    cdef public long long released
    cdef public long long modified
    cdef public double zero_credit_since
    cdef bint shared(self) except -1
    cdef drop_head(self)
    cpdef Py_ssize_t undelivered(self) except -1

@cython.final
cdef class Node:
    cdef public str id
    cdef public int cost
    cdef public RouterConnection connection
    cdef public Node next_hop
    cdef public object valid_origins
    cdef public bint demand
    cdef public long long since
    cdef public Address address
    cpdef Node neighbour(self)

@cython.final
cdef class Target:
    cdef public Node node
    cdef public long long since
    cdef public RouterLink link
    cdef public long long outstanding
    cdef public Speed speed
    cdef public Window window
    cdef public tuple ranks
    cdef public int exclusive
    cdef public object groups
    cdef public Address address
    cpdef bint stale(self) noexcept
    cpdef Node neighbour(self)

@cython.final
cdef class Address:
    cdef public str key
    cdef public int treatment
    cdef public int priority
    cdef public object config
    cdef public long long version
    cdef public list consumers
    cdef public RouterLink lone
    cdef public list producers
    cdef public dict tracked
    cdef public long long asking
    cdef public long long preferred
    cdef public bint prioritized
    cdef public bint ranked
    cdef public object exclusive
    cdef public object groups
    cdef public dict targets
    cdef public list nearest
    cdef public list ways
    cdef public dict ways_from
    cdef public list order
    cdef public int ordered
    cdef public long long nearest_by
    cdef public object subscriber
    cdef public bint exchange
    cdef public Py_ssize_t turn
    cdef public long long run
    cdef public double usual
    cdef public int concurrency
    cdef public bint watched
    cdef public double held_since
    cdef public bint hungry
    cdef public dict paced
    cdef public object pending
    cdef public Address fallback
    cdef public Address primary
    cdef public bint dead
    cdef public long long ingress
    cdef public long long egress
    cdef public long long transit
    cdef public long long to_container
    cdef public long long from_container
    cdef public long long to_process
    cdef public long long from_process
    cdef public long long redirected
    cdef public long long expired
    cdef public bint drops_expired
    cpdef bint reachable(self) except -1
    cpdef bint direct(self) except -1
    cpdef bint directed(self) except -1
    cpdef bint unused(self) except -1

cdef Queued make_queued(RouterLink link, Annotations annotations)

@cython.final
cdef class Queued:
    cdef public RouterLink link
    cdef public Annotations annotations
    cdef public Address address
    cdef public Delivery delivery
    cdef public Group group
    cdef public unsigned int did
    cdef public bint settled
    cdef public unsigned int format
    cdef public int priority
    cdef public int slot
    cdef public bytes state
    cdef public bint own
    cdef public bint gathers
    cdef public bint alone
    cdef public Target target
    cdef public bint anew
    cdef public bint credited
    cdef public Py_ssize_t head_size
    cdef public bytes rest
    cdef public Py_ssize_t rest_fields
    cdef public bytes tag
    cdef public bytes data
    cdef public list later
    cdef public Py_ssize_t size
    cdef public long long kept
    cdef public double since
    cdef public double expires
    cdef public Py_ssize_t ttl_at
    cdef public bint complete
    cdef public list branches
    cdef public int unstarted
    cdef public Py_ssize_t place
    cdef public long long arrival
    cdef public int to_routers
    cdef public object sample
    cdef add(self, bytes piece)
    cpdef bint came_from(self, RouterConnection connection, long long until) except -1
    cdef RouterLink barring(self)
    cdef drop_data(self)
    cpdef bytes payload(self)

@cython.final
cdef class Branch:
    cdef public Queued queued
    cdef public RouterLink out
    cdef public bint started
    cdef public Delivery delivery

@cython.final
cdef class Group:
    cdef public RouterLink link
    cdef public Delivery delivery
    cdef public unsigned int did
    cdef public int waiting
    cdef public int rank
    cdef public bytes state
    cdef public bint sealed
