from fairlead.cli import main


main()
