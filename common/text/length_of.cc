#include "common/text/length_of.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace muster {

std::string LengthOf(absl::string_view text) {
  size_t characters = 0;
  for (; !text.empty(); ++characters) text.remove_prefix(FirstCodePoint(text).bytes);
  return absl::StrCat(characters, characters == 1 ? " character" : " characters");
}

}  // namespace muster
