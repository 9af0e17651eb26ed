#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_CHOICES_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_CHOICES_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Type names, in the help, of arguments for which completion knows candidates.
inline constexpr char kJobType[] = "JOB";
inline constexpr char kCheckpointType[] = "JOB[@CLOCK|@best]";
inline constexpr char kDaemonType[] = "DAEMON";
inline constexpr char kCommandType[] = "COMMAND";

// A check that accepts one of these names in any case. An error suggests the nearest name. As an
// option's transform, it replaces the value by the name as written here.
class OneOf : public CLI::Validator {
 public:
  explicit OneOf(const std::vector<std::string>& names);
};

// Returns the names that an option's OneOf accepts; empty if the option has no OneOf.
std::vector<std::string> ChoicesOf(CLI::Option& option);

// Returns "did you mean list? ", for use within an error; empty if no name is near.
std::string DidYouMeanQuestion(const std::optional<std::string>& near);

// Returns "a", "a or b" or "a, b or c".
std::string JoinWithOr(const std::vector<std::string>& names);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_CHOICES_H_
