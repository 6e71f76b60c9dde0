#include "wire.h"

uint8_t *put_uint(uint8_t *p, uint32_t v) {
  if (v == 0) { *p++ = AMQP_UINT0; return p; }
  if (v < 256) { *p++ = 0x52; *p++ = (uint8_t)v; return p; }
  *p++ = AMQP_UINT;
  return put_u32(p, v);
}

uint8_t *put_text(uint8_t *p, uint8_t constructor, const char *s) {
  size_t n = strlen(s);
  if (n > 255) n = 255;
  *p++ = constructor;
  *p++ = (uint8_t)n;
  memcpy(p, s, n);
  return p + n;
}

uint8_t *put_bool(uint8_t *p, bool v) { *p++ = v ? AMQP_TRUE : AMQP_FALSE; return p; }

uint8_t *put_frame(uint8_t *frame, uint8_t type, uint8_t code, uint8_t count) {
  const uint8_t head[] = {2, type, 0, 0, 0x00, 0x53, code, 0xc0, 0, count};  // doff 2, channel 0, descriptor, list8
  memcpy(frame + 4, head, sizeof head);
  return frame + 4 + sizeof head;
}

size_t end_frame(uint8_t *frame, uint8_t *end) {
  frame[12] = (uint8_t)(end - frame - 13);  // the list's size counts from its count byte on
  put_u32(frame, (uint32_t)(end - frame));
  return (size_t)(end - frame);
}

const uint8_t *value_end(const uint8_t *p, const uint8_t *end) {
  while (p && p < end && *p == 0)  // described: step over the descriptor, which is not described itself, to the value
    p = p + 1 < end && p[1] == 0 ? NULL : value_end(p + 1, end);
  if (!p || p >= end) return NULL;
  uint8_t code = *p++;
  size_t left = (size_t)(end - p), need;
  switch (code >> 4) {
    case 0x4: need = 0; break;
    case 0x5: need = 1; break;
    case 0x6: need = 2; break;
    case 0x7: need = 4; break;
    case 0x8: need = 8; break;
    case 0x9: need = 16; break;
    case 0xa: case 0xc: case 0xe:
      if (left < 1) return NULL;
      need = 1 + (size_t)p[0];
      break;
    case 0xb: case 0xd: case 0xf:
      if (left < 4) return NULL;
      need = 4 + (size_t)get_u32(p);
      break;
    default: return NULL;
  }
  return left < need ? NULL : p + need;
}

static bool read_ulong(const uint8_t *p, const uint8_t *end, uint32_t *v, const uint8_t **after) {
  *after = value_end(p, end);
  if (!*after) return false;
  switch (*p) {
    case 0x44: *v = 0; return true;
    case 0x53: *v = p[1]; return true;
    case 0x80: *v = get_u32(p + 5); return get_u32(p + 1) == 0;
    default: return false;
  }
}

bool read_composite(const uint8_t *p, const uint8_t *end, uint32_t *code, fields *list, const uint8_t **after) {
  if (end - p < 3 || *p != 0 || !read_ulong(p + 1, end, code, &p)) return false;
  *after = value_end(p, end);
  if (!*after) return false;
  list->end = *after;
  switch (*p) {
    case 0x45: list->at = *after; list->left = 0; return true;
    case 0xc0: if (p[1] < 1) return false; list->at = p + 3; list->left = p[2]; return true;
    case 0xd0: if (get_u32(p + 1) < 4) return false; list->at = p + 9; list->left = get_u32(p + 5); return true;
    default: return false;
  }
}

const uint8_t *next_value(fields *f, const uint8_t **end) {
  if (!f->left) return NULL;
  const uint8_t *p = f->at;
  *end = value_end(p, f->end);
  if (!*end) { f->left = 0; return NULL; }
  f->left--;
  f->at = *end;
  return p;
}

bool next_uint(fields *f, uint32_t *v) {
  const uint8_t *end, *p = next_value(f, &end);
  if (!p) return false;
  switch (*p) {
    case AMQP_TRUE: *v = 1; return true;
    case AMQP_FALSE: case AMQP_UINT0: case 0x44: *v = 0; return true;
    case 0x50: case 0x52: case 0x53: case 0x56: *v = p[1]; return true;
    case 0x60: *v = (uint32_t)p[1] << 8 | p[2]; return true;
    case AMQP_UINT: *v = get_u32(p + 1); return true;
    default: return false;
  }
}

bool next_flag(fields *f) {
  uint32_t v = 0;
  return next_uint(f, &v) && v;
}

bool next_text(fields *f, char *out, size_t room) {
  const uint8_t *end, *p = next_value(f, &end);
  out[0] = 0;
  if (!p) return false;
  size_t skip = *p == AMQP_STRING8 || *p == AMQP_SYMBOL8 ? 2 : *p == 0xb1 || *p == 0xb3 ? 5 : 0;
  if (!skip) return false;
  size_t n = (size_t)(end - p) - skip;
  if (n >= room) n = room - 1;
  memcpy(out, p + skip, n);
  out[n] = 0;
  return true;
}
