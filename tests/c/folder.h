// A folder of a test's own. Who includes this has defined _XOPEN_SOURCE 500 or more, for nftw.
#ifndef COLLECT_TESTS_FOLDER_H
#define COLLECT_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>

static inline int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info;
  (void)kind;
  (void)at;
  return remove(path);
}

// Removes a folder and all that is in it; 0 is success.
static inline int remove_folder(const char *folder) {
  return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
