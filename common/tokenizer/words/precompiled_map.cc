#include "common/tokenizer/words/precompiled_map.h"

#include <cstring>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the table's numbers are little-endian");

uint32_t DistanceOf(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool IsEnd(uint32_t unit) { return (unit >> 8 & 1) != 0; }
// The byte by which a unit is reached; a unit that holds a place is reached by none.
uint32_t LabelOf(uint32_t unit) { return unit & (1u << 31 | 0xff); }

}  // namespace

absl::StatusOr<std::shared_ptr<const PrecompiledMap>> PrecompiledMap::Create(
    absl::string_view bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() >= sizeof(trie_bytes)) memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  if (trie_bytes < sizeof(uint32_t) || trie_bytes % sizeof(uint32_t) != 0 ||
      trie_bytes > bytes.size() - sizeof(trie_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("the table of normalized characters has ",
                                                   bytes.size(), " bytes, fewer than it says"));
  }
  auto map = absl::WrapUnique(new PrecompiledMap());
  map->trie_.resize(trie_bytes / sizeof(uint32_t));
  memcpy(map->trie_.data(), bytes.data() + sizeof(trie_bytes), trie_bytes);
  const absl::string_view replacements = bytes.substr(sizeof(trie_bytes) + trie_bytes);
  map->replacements_.assign(replacements.data(), replacements.size());
  // So that every place in it is a text with an end.
  map->replacements_.push_back('\0');
  return std::shared_ptr<const PrecompiledMap>(std::move(map));
}

void PrecompiledMap::Apply(absl::string_view text, size_t most, std::string& out) const {
  while (!text.empty() && out.size() <= most) {
    size_t longest = 0;
    uint32_t place = 0;
    size_t unit = DistanceOf(trie_[0]);
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      unit ^= byte;
      if (unit >= trie_.size() || LabelOf(trie_[unit]) != byte) break;
      const bool end = IsEnd(trie_[unit]);
      unit ^= DistanceOf(trie_[unit]);
      if (!end || unit >= trie_.size()) continue;
      longest = i + 1;
      place = trie_[unit] & 0x7fffffff;
    }
    if (longest > 0 && place < replacements_.size()) {
      out += replacements_.data() + place;
      text.remove_prefix(longest);
      continue;
    }
    const size_t bytes = FirstCodePoint(text).bytes;
    out.append(text.data(), bytes);
    text.remove_prefix(bytes);
  }
  out.append(text.data(), text.size());
}

}  // namespace muster
