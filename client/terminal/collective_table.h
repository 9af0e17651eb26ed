#ifndef MUSTER_CLIENT_TERMINAL_COLLECTIVE_TABLE_H_
#define MUSTER_CLIENT_TERMINAL_COLLECTIVE_TABLE_H_

#include <string>

namespace muster {

namespace v1 {
class SlotCollectives;
}  // namespace v1

// Returns a table of a slot's last collective calls, in lines of at most 80 columns: the group and
// the call's number in it, what it does, its label, when it started (UTC) and how long it took.
// Where that is too wide, counts are rounded and labels cut. Lines below tell why calls failed.
// Each line ends with a newline.
std::string CollectiveTable(const v1::SlotCollectives& slot);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_COLLECTIVE_TABLE_H_
