#ifndef MUSTER_CLIENT_JOB_IGNORE_RULES_H_
#define MUSTER_CLIENT_JOB_IGNORE_RULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// What of a folder is not shipped with a job, as a file .musterignore says it: a small part of what
// .gitignore can say. Immutable.
//
// A line is a pattern; empty lines, and those that begin with "#", are none. "*" stands for any
// characters of a name, "?" for one; neither stands for a slash. A pattern without a slash, or with
// one at its end alone, fits names at any depth; with another slash it fits whole paths from the
// folder on. With a slash at its end it fits folders alone. What is in a folder that fits is left
// out, too.
class IgnoreRules {
 public:
  // Nothing is left out.
  IgnoreRules() = default;

  // InvalidArgument: a line has what .gitignore knows and this does not: "!" at its beginning,
  // "**",
  // "[" or a backslash (names the line). `origin` names the text.
  static absl::StatusOr<IgnoreRules> Parse(absl::string_view text, absl::string_view origin);

  enum class Kind { kFile, kFolder };
  // Returns whether a path, relative to the folder, is left out by itself.
  bool Fits(absl::string_view path, Kind kind) const;

 private:
  struct Rule {
    std::string pattern;
    // Fits whole paths, not names.
    bool is_path = false;
    bool folders_alone = false;
  };

  std::vector<Rule> rules_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_IGNORE_RULES_H_
