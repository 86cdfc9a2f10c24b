// tools/placement_audit/page_files.h: what the page of a program is made of: the files of page/.
#pragma once

#include <string>

namespace tessera::audit {

std::string page_style();
std::string page_script();

}  // namespace tessera::audit
