#include "client/init/comment.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "client/terminal/help_formatter.h"

namespace muster {
namespace {

constexpr size_t kLineWidth = 80;

}  // namespace

void AddComment(const std::string& path, absl::string_view text, YamlComments& comments) {
  const auto depth = static_cast<size_t>(std::count(path.begin(), path.end(), '.'));
  std::string& comment = comments[path];
  absl::StrAppend(&comment, comment.empty() ? "" : "\n",
                  WrapLines(text, kLineWidth - 2 * depth - 2));
}

}  // namespace muster
