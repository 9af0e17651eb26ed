#ifndef MUSTER_COMMON_PROGRAM_CONTENT_HASH_H_
#define MUSTER_COMMON_PROGRAM_CONTENT_HASH_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace muster {

// The SHA-256 of bytes that come in parts. Not thread-safe.
class ContentHash {
 public:
  ContentHash();

  void Add(absl::string_view bytes);

  // Returns the name of all that was added: "sha256-" and the hash in 64 small hexadecimal digits.
  // Call once, last.
  std::string Name();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };

  const std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Returns whether a text has the form of a name that ContentHash gives. Such a name is safe as that
// of a file.
bool IsContentName(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_PROGRAM_CONTENT_HASH_H_
