/* The piece of work by which processors are compared. */
#include "base/work.h"

#include "check.h"

int main(void)
{
	/* Made with another program that sorts: sorted(), of Python. */
	CHECK(work_do() == 0x62a131ce);
	CHECK(work_do() == work_do());
	return CHECK_DONE();
}
