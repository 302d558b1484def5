"""What Spark says through Py4J when it finds no room, as PySpark hands it on."""

HEAP = "An error occurred.\n: java.lang.OutOfMemoryError: Java heap space"
RESULTS = (
    "An error occurred while calling o1234.getResult.\n"
    ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
    "\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized results of "
    "1 tasks (14.4 MiB) is bigger than spark.driver.maxResultSize (8.0 MiB)\n"
    "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)\n"
    "\t... 1 more\n"
)
