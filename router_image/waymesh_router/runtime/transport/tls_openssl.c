/* OpenSSL as Python has loaded it, and its objects behind Python's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "tls_parts.h"

int (*ssl_read)(void *, void *, int);
int (*ssl_write)(void *, const void *, int);
int (*ssl_error)(const void *, int);
void *(*ssl_rbio)(const void *);
void *(*ssl_wbio)(const void *);
void *(*ssl_ex_data)(const void *, int);
int (*bio_read)(void *, void *, int);
int (*bio_write)(void *, const void *, int);
long (*bio_ctrl)(void *, int, long, void *);
void (*err_clear)(void);
unsigned long (*err_get)(void);
const char *(*err_reason)(unsigned long);

int tls_find_functions(const char *path) {
  static const struct {
    void *to;
    const char *name;
  } wanted[] = {
      {&ssl_read, "SSL_read"},       {&ssl_write, "SSL_write"},          {&ssl_error, "SSL_get_error"},
      {&ssl_rbio, "SSL_get_rbio"},   {&ssl_wbio, "SSL_get_wbio"},        {&ssl_ex_data, "SSL_get_ex_data"},
      {&bio_read, "BIO_read"},       {&bio_write, "BIO_write"},          {&bio_ctrl, "BIO_ctrl"},
      {&err_clear, "ERR_clear_error"}, {&err_get, "ERR_get_error"},      {&err_reason, "ERR_reason_error_string"},
  };
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!library) return 0;
  int found = 1;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *function = dlsym(library, wanted[i].name);
    memcpy(wanted[i].to, &function, sizeof function);
    if (!function) found = 0;
  }
  dlclose(library); /* Python keeps it */
  return found;
}

intptr_t tls_of_object(intptr_t object, intptr_t context) {
  struct {
    intptr_t references, type, socket, ssl, context;
  } head;
  memcpy(&head, (const void *)object, sizeof head);
  if (head.context != context || head.socket || !head.ssl) return 0;
  return ssl_ex_data((const void *)head.ssl, 0) == (void *)object ? head.ssl : 0;
}

long tls_in_memory(intptr_t ssl, int output) {
  void *bio = output ? ssl_wbio((const void *)ssl) : ssl_rbio((const void *)ssl);
  return bio ? bio_ctrl(bio, PENDING, 0, NULL) : -1;
}
