from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.forwarding.choice cimport ConsumerChoice
from waymesh_router.core.model cimport Address, RouterLink, Target

cdef RouterLink pick_prioritized(ConsumerChoice choice, Address address, Annotations annotations)
cdef bint has_credit(ConsumerChoice choice, Address address, RouterLink out) except -1
cdef RouterLink pick_remote_prioritized(
    ConsumerChoice choice,
    Address address,
    Annotations annotations,
    RouterLink best,
    long long highest,
    long long least,
)
cdef RouterLink pick_exclusive(ConsumerChoice choice, Address address, Annotations annotations)
cdef bint leads_to_leader(ConsumerChoice choice, Address address, Annotations annotations) except -1
cdef Target leader_for(Address address, Annotations annotations)
