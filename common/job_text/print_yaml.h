#ifndef MUSTER_COMMON_JOB_TEXT_PRINT_YAML_H_
#define MUSTER_COMMON_JOB_TEXT_PRINT_YAML_H_

#include <map>
#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Comments to put above fields, by the fields' paths, such as "data.csv.label". Each line of a text
// becomes a comment line.
using YamlComments = std::map<std::string, std::string>;

// Returns the set fields of a message, in the order of their declaration, as a YAML document that
// ParseYaml and FillMessage read back to the same message. Numbers have as many digits as that
// takes.
std::string PrintYaml(const google::protobuf::Message& message, const YamlComments& comments = {});

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_PRINT_YAML_H_
