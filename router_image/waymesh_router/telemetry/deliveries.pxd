from waymesh_router.core.forwarding.annotations cimport Annotations
from waymesh_router.core.model cimport RouterLink
from waymesh_router.core.delivery_sampling cimport Sample

cpdef delivery_rows(Sample sample, str outcome, long long at_us, str router_id)
cdef object _row(Sample sample, RouterLink out, str outcome, long long at_us, str router_id)
cdef str _container(RouterLink link)
