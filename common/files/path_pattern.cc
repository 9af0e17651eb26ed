#include "common/files/path_pattern.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/files/file_roots.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostAlternatives = 1024;
constexpr size_t kMostFiles = 10'000;
constexpr size_t kMostNames = 1'000'000;
constexpr size_t kNone = absl::string_view::npos;

bool HasWildcard(absl::string_view part) { return part.find_first_of("*?[") != kNone; }

absl::Status TooMany(const std::string& pattern, absl::string_view what, size_t most) {
  return absl::InvalidArgumentError(absl::StrCat("the pattern '", pattern,
                                                 "' stands for more than ", most, " ", what,
                                                 "; name fewer, or join them into larger files"));
}

// Returns where the set that begins at pattern[at], a "[", has its "]". kNone: it has none.
size_t EndOfSet(absl::string_view pattern, size_t at) {
  size_t first = at + 1;
  if (first < pattern.size() && pattern[first] == '!') ++first;
  // A bracket that comes first belongs to the set.
  return pattern.find(']', first + 1);
}

// Returns whether the element at pattern[at], no "*", takes this character; moves `at` behind it.
bool Takes(absl::string_view pattern, char c, size_t& at) {
  const char what = pattern[at];
  const size_t end = what == '[' ? EndOfSet(pattern, at) : kNone;
  if (end == kNone) {
    ++at;
    return what == '?' || what == c;
  }
  absl::string_view set = pattern.substr(at + 1, end - at - 1);
  at = end + 1;
  const bool others = set.front() == '!';
  if (others) set.remove_prefix(1);
  bool found = false;
  for (size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found |= set[i] <= c && c <= set[i + 2];
      i += 2;
    } else {
      found |= set[i] == c;
    }
  }
  return found != others;
}

// Returns whether a name fits a pattern without slashes and braces. Takes at most name × pattern
// steps: if what follows a "*" does not fit, the last "*" alone takes one more character.
bool Fits(absl::string_view name, absl::string_view pattern) {
  if (absl::StartsWith(name, ".") && !absl::StartsWith(pattern, ".")) return false;
  size_t n = 0;
  size_t p = 0;
  size_t after_star = kNone;
  size_t given = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      given = n;
      continue;
    }
    size_t next = p;
    if (p < pattern.size() && Takes(pattern, name[n], next)) {
      p = next;
      ++n;
    } else if (after_star != kNone) {
      p = after_star;
      n = ++given;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Returns the parts of the brace that opens at text[open], and its end in `close`; kNone: none.
std::vector<absl::string_view> PartsOfBrace(absl::string_view text, size_t open, size_t& close) {
  std::vector<absl::string_view> parts;
  size_t depth = 0;
  size_t begin = open + 1;
  for (close = open; close < text.size(); ++close) {
    if (text[close] == '{') ++depth;
    if (text[close] == '}') --depth;
    if (depth == 0 || (depth == 1 && text[close] == ',')) {
      parts.push_back(text.substr(begin, close - begin));
      begin = close + 1;
    }
    if (depth == 0) return parts;
  }
  close = kNone;
  return parts;
}

class Expander {
 public:
  explicit Expander(const std::string& pattern) : pattern_(pattern) {}

  absl::StatusOr<std::vector<std::string>> Expand() {
    MUSTER_RETURN_IF_ERROR(AddAlternatives(pattern_));
    for (const std::string& alternative : alternatives_) {
      if (!HasWildcard(alternative)) {
        MUSTER_RETURN_IF_ERROR(AddFile(alternative));
        continue;
      }
      const std::vector<std::string> parts = absl::StrSplit(alternative, '/');
      MUSTER_RETURN_IF_ERROR(Walk("", parts));
    }
    std::sort(files_.begin(), files_.end());
    files_.erase(std::unique(files_.begin(), files_.end()), files_.end());
    if (files_.empty()) {
      return absl::NotFoundError(
          absl::StrCat("No file fits the pattern '", pattern_,
                       "' on this machine; correct it, or put the data in the same place on every "
                       "machine that runs a worker"));
    }
    return std::move(files_);
  }

 private:
  absl::Status AddAlternatives(const std::string& text) {
    const size_t open = text.find('{');
    if (open == kNone) {
      if (alternatives_.size() == kMostAlternatives) {
        return TooMany(pattern_, "alternatives", kMostAlternatives);
      }
      alternatives_.push_back(text);
      return absl::OkStatus();
    }
    size_t close = 0;
    const std::vector<absl::string_view> parts = PartsOfBrace(text, open, close);
    if (close == kNone) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the pattern '", pattern_, "' opens a brace that it does not close; write {a,b}"));
    }
    const absl::string_view whole = text;
    for (const absl::string_view part : parts) {
      MUSTER_RETURN_IF_ERROR(
          AddAlternatives(absl::StrCat(whole.substr(0, open), part, whole.substr(close + 1))));
    }
    return absl::OkStatus();
  }

  absl::Status AddFile(std::string path) {
    if (files_.size() == kMostFiles) return TooMany(pattern_, "files", kMostFiles);
    files_.push_back(std::move(path));
    return absl::OkStatus();
  }

  // `folder` is empty, or ends in a slash.
  absl::Status Walk(const std::string& folder, absl::Span<const std::string> parts) {
    const bool last = parts.size() == 1;
    if (!HasWildcard(parts[0])) {
      if (!last) return Walk(absl::StrCat(folder, parts[0], "/"), parts.subspan(1));
      std::error_code error;
      const std::string path = absl::StrCat(folder, parts[0]);
      return fs::is_regular_file(path, error) ? AddFile(path) : absl::OkStatus();
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder, parts[0], last));
    for (const std::string& name : names) {
      MUSTER_RETURN_IF_ERROR(last ? AddFile(absl::StrCat(folder, name))
                                  : Walk(absl::StrCat(folder, name, "/"), parts.subspan(1)));
    }
    return absl::OkStatus();
  }

  // Returns the names in a folder that fit: of files, or of folders.
  absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder,
                                                   absl::string_view pattern, bool of_files) {
    const std::string listed = folder.empty() ? "." : folder;
    std::vector<std::string> names;
    std::error_code error;
    MUSTER_RETURN_IF_ERROR(CheckWithinDataRoots(listed));
    // A missing folder has no names.
    if (!fs::is_directory(listed, error)) return names;
    for (fs::directory_iterator entry(listed, error), end; !error && entry != end;
         entry.increment(error)) {
      if (++names_seen_ > kMostNames) {
        return TooMany(pattern_, "names to be looked at", kMostNames);
      }
      std::string name = entry->path().filename().string();
      if (!Fits(name, pattern)) continue;
      std::error_code unreadable;
      const fs::file_type type = entry->status(unreadable).type();
      // A link to nowhere is kept, so that opening it fails by name.
      const bool fits = of_files
                            ? type == fs::file_type::regular || type == fs::file_type::not_found
                            : type == fs::file_type::directory;
      if (fits) names.push_back(std::move(name));
    }
    if (error) {
      return absl::ErrnoToStatus(error.value(), absl::StrCat("Listing data folder '", listed, "'"));
    }
    return names;
  }

  const std::string& pattern_;
  std::vector<std::string> alternatives_;
  std::vector<std::string> files_;
  size_t names_seen_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOfPattern(const std::string& path) {
  std::error_code error;
  if (path.find_first_of("*?[{") == kNone || fs::is_regular_file(path, error)) {
    return std::vector<std::string>{path};
  }
  return Expander(path).Expand();
}

}  // namespace muster
