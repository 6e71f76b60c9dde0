from waymesh_amqp.delivery cimport Delivery
from waymesh_amqp.handler cimport Handler
from waymesh_amqp.link cimport Link
from waymesh_router.core.annotations cimport Annotations
from waymesh_router.core.budget cimport Budget
from waymesh_router.core.model cimport Address, Node, RouterConnection, RouterLink, Target
from waymesh_router.core.delivery_sampling cimport Sample, DeliverySampling
from waymesh_router.core.sections cimport Sections

cdef class Forwarding(Handler):
    cdef public str router_id
    cdef public dict addresses
    cdef public Sections sections
    cdef public Budget budget
    cdef public dict annotation_cache
    cdef public Address forbidden
    cdef public Annotations plain_annotations
    cdef public Target picked
    cdef public int priority
    cdef public long long redirected
    cdef public long long presettled
    cdef public long long dropped_presettled
    cdef public long long accepted
    cdef public long long rejected
    cdef public long long released
    cdef public long long modified
    cdef public long long ingress
    cdef public long long egress
    cdef public long long from_containers
    cdef public long long to_containers
    cdef public long long transit
    cdef public DeliverySampling sampling
    cdef public long long until_sample
    cdef public Sample sample

    cpdef on_transfer(self, Link link, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)

    cdef first_frame(self, RouterLink lk, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)
    cdef incomplete_head(self, RouterLink lk, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)
    cdef more_head(self, RouterLink lk, bint more, bytes fragment)
    cdef Annotations annotations_of(self, RouterLink lk, const unsigned char[::1] b)
    cdef Address address_of(self, RouterLink lk, Annotations annotations, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)
    cdef Address address_by_to(self, RouterLink lk, Annotations annotations, const unsigned char[::1] b, Py_ssize_t at, Py_ssize_t end)
    cpdef Address lookup(self, str text, str phase)
    cpdef Address relayed(self, RouterLink lk, str text)
    cdef RouterLink pick(self, Address address, Annotations annotations, RouterLink lk)
    cdef RouterLink pick_closest(self, Address address, Annotations annotations)
    cdef RouterLink pick_balanced(self, Address address, Annotations annotations)
    cdef RouterLink remote_link(self, Target target, Annotations annotations)
    cdef bint has_way(self, Address address, Annotations annotations) except -1
    cdef find_nearest(self, Address address)
    cdef forward(self, RouterLink lk, Address address, Annotations annotations, RouterLink out, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)
    cdef bint track(self, RouterLink lk, Delivery d) except -1
    cdef bytes outgoing_annotations(self, RouterLink out, Annotations annotations)
    cdef count_out(self, RouterLink lk, Address address, RouterLink out)
    cdef passed_settled(self, RouterLink lk)
    cdef stream_ends(self, RouterLink lk, RouterLink out)
    cdef refuse_delivery(self, RouterLink lk, bint more, bytes state)
    cdef end_discarded(self, RouterLink lk)
    cdef count_outcome(self, RouterLink lk, bytes state)
    cdef sender_settled(self, Delivery d, bytes state)
    cdef pass_on(self, RouterLink lk, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)
    cdef enqueue(self, RouterLink lk, Address address, Annotations annotations, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)
    cpdef drain(self, Address address)
    cdef to_many(self, RouterLink lk, Address address, Annotations annotations, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)
    cdef feed(self, RouterLink lk, bint more, const unsigned char[::1] b, Py_ssize_t start, Py_ssize_t end)

cdef int outcome_code(bytes state) except -1
