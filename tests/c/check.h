// What the C tests check with. A failed check says where, and with which error, and ends the
// function with 1.
#ifndef COLLECT_TESTS_CHECK_H
#define COLLECT_TESTS_CHECK_H

#include <collect/collect.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s\nlast error: %s\n", __FILE__, __LINE__, #condition,                        \
             collect_last_error_message());                                                        \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

#define FINE(call) CHECK((call) == COLLECT_OK)
#define REFUSED(call) CHECK((call) == COLLECT_ERR_INVALID_ARGUMENT)
#define LAST_TEXT_HAS(text) CHECK(strstr(collect_last_error_message(), (text)) != NULL)

#endif
